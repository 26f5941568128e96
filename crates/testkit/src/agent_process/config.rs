//! The KubeletConfiguration of a scenario's node, and the machine set-up that it takes.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::instance::Instance;
use crate::process;

/// Where the agent listens, chosen free.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// HTTPS API.
    pub api: u16,
    /// Read-only HTTP.
    pub read_only: u16,
    /// `/healthz`.
    pub healthz: u16,
}

/// What a scenario changes about the node.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Fields laid over the configuration file; null removes one.
    pub overlay: Value,
    /// `--v`: how much the agent logs.
    pub verbosity: u8,
    /// Further arguments of the agent.
    pub arguments: Vec<String>,
    /// Folders with programs that the agent finds before those of the machine.
    pub programs: Vec<PathBuf>,
    /// The node's name.
    pub node: String,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            overlay: json!({}),
            verbosity: 2,
            arguments: Vec::new(),
            programs: Vec::new(),
            node: super::NODE.to_owned(),
        }
    }
}

/// Makes folders and cgroups, and writes `kubelet.json`.
pub(super) fn write(instance: &Instance, options: &AgentOptions) -> Result<Ports> {
    for name in ["kubelet", "manifests", "logs", "pki"] {
        let folder = instance.path(name);
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    }
    make_cgroup_root(instance)?;
    let ports = Ports { api: free_port()?, read_only: free_port()?, healthz: free_port()? };
    let mut config = base(instance, ports);
    lay_over(&mut config, &options.overlay);
    let text = serde_json::to_string_pretty(&config)?;
    fs::write(instance.path("kubelet.json"), text).context("write kubelet.json")?;
    Ok(ports)
}

fn base(instance: &Instance, ports: Ports) -> Value {
    let resolv = instance.path("resolv.conf");
    // A file of our own: the content of pods does not depend on the machine.
    let _ = fs::write(&resolv, "nameserver 192.0.2.53\nsearch podward.test\n");
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": instance.path("manifests"),
        "podLogsDir": instance.path("logs"),
        "containerRuntimeEndpoint": format!("unix://{}", instance.socket().display()),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": instance.cgroup_root(),
        "cgroupsPerQOS": true,
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "address": "127.0.0.1",
        "port": ports.api,
        "readOnlyPort": ports.read_only,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": ports.healthz,
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "resolvConf": resolv,
        "clusterDomain": "cluster.local",
        "clusterDNS": ["192.0.2.10"],
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
            "imagefs.available": "0%", "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "oomScoreAdj": 0,
        "registerNode": false,
    })
}

fn lay_over(config: &mut Value, overlay: &Value) {
    let (Some(config), Some(overlay)) = (config.as_object_mut(), overlay.as_object()) else { return };
    for (name, value) in overlay {
        if value.is_null() {
            config.remove(name);
        } else {
            config.insert(name.clone(), value.clone());
        }
    }
}

/// The agent demands that its cgroup root exists in every hierarchy.
fn make_cgroup_root(instance: &Instance) -> Result<()> {
    for mount in process::cgroup_mounts() {
        let folder = mount.join(instance.cgroup_root().trim_start_matches('/'));
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            inherit(&mount, &folder, file);
        }
    }
    Ok(())
}

/// On cgroup v1 a new cpuset is empty and takes no process.
fn inherit(parent: &Path, child: &Path, file: &str) {
    if let Ok(value) = fs::read_to_string(parent.join(file)) {
        let _ = fs::write(child.join(file), value);
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}
