//! The configuration of the agent that makes a run.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use config::{Invocation, LoadedConfig};
use runtime::network::free_pod_range;
use serde_json::json;

use super::folder::RunFolder;
use crate::run::load_configuration;

/// The folder of manifests that the agent reads.
pub(super) fn staging(root: &Path) -> PathBuf {
    root.join("manifests-of-run")
}

/// Settings of an agent that leaves the machine and other agents alone.
pub(super) fn load(folder: &RunFolder, verbosity: u32) -> anyhow::Result<LoadedConfig> {
    let root = folder.root();
    let pod_cidr = free_pod_range(folder.first_range()).context("choose a range of pod addresses")?;
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": staging(root),
        "podLogsDir": root.join("logs"),
        "podCIDR": pod_cidr.to_string(),
        "cgroupRoot": folder.cgroup(),
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "registerNode": false,
        "serializeImagePulls": false,
        "healthzPort": 0,
        "readOnlyPort": 0,
        // The agent of the machine takes care of the machine.
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
            "imagefs.available": "0%", "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    });
    let file = root.join("configuration.json");
    std::fs::write(&file, configuration.to_string()).with_context(|| format!("write {}", file.display()))?;
    let arguments = [
        format!("--config={}", file.display()),
        format!("--root-dir={}", root.display()),
        format!("--cert-dir={}", root.join("pki").display()),
        format!("--podward-pod-bridge={}", folder.bridge()),
        format!("--podward-cni-conf-dir={}", folder.cni_conf_dir().display()),
        format!("--v={verbosity}"),
    ];
    match load_configuration(&arguments)? {
        Invocation::Run(loaded) => Ok(*loaded),
        Invocation::Help | Invocation::Version(_) => {
            bail!("the arguments of the run are not those of an agent")
        }
    }
}
