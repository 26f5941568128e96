//! The KubeletConfiguration of a scenario's node, and the cgroups and folders that it requires.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::instance::Instance;
use crate::node_runtime::RuntimeKind;
use crate::process;

/// Free ports for the agent to listen on.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub api: u16,
    pub read_only: u16,
    /// `/healthz`.
    pub healthz: u16,
}

/// Settings that a scenario changes on its node.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Merged over the configuration file; null removes a field.
    pub overlay: Value,
    /// Value of `--v`.
    pub verbosity: u8,
    pub arguments: Vec<String>,
    /// Folders searched for programs before the machine's `PATH`.
    pub programs: Vec<PathBuf>,
    pub node: String,
    /// Which runtime the agent uses.
    pub runtime: RuntimeKind,
    /// Stands for the folder of device plugins, which is the same for every agent of a machine.
    pub device_plugins: Option<PathBuf>,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            overlay: json!({}),
            verbosity: 2,
            arguments: Vec::new(),
            programs: Vec::new(),
            node: super::NODE.to_owned(),
            runtime: RuntimeKind::Containerd,
            device_plugins: None,
        }
    }
}

/// Creates folders and cgroups, and writes `kubelet.json`.
pub(super) fn write(instance: &Instance, options: &AgentOptions) -> Result<Ports> {
    for name in ["kubelet", "manifests", "logs", "pki"] {
        let folder = instance.path(name);
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    }
    make_cgroup_root(instance)?;
    let ports = Ports { api: free_port()?, read_only: free_port()?, healthz: free_port()? };
    let mut config = base(instance, ports);
    match options.runtime {
        RuntimeKind::Containerd => {}
        RuntimeKind::Socket => lay_over(&mut config, &json!({"podCIDR": pod_cidr(instance)})),
        RuntimeKind::Inside => {
            lay_over(&mut config, &json!({"podCIDR": pod_cidr(instance), "containerRuntimeEndpoint": null}));
        }
    }
    lay_over(&mut config, &options.overlay);
    let text = serde_json::to_string_pretty(&config)?;
    fs::write(instance.path("kubelet.json"), text).context("write kubelet.json")?;
    Ok(ports)
}

fn base(instance: &Instance, ports: Ports) -> Value {
    let resolv = instance.path("resolv.conf");
    // A fixed file, so that pods do not depend on the machine's resolv.conf.
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

/// The range that the bridge of containerd's nodes has, too.
fn pod_cidr(instance: &Instance) -> String {
    format!("{}.0/24", instance.subnet())
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

/// The agent requires its cgroup root to exist in every hierarchy.
pub(crate) fn make_cgroup_root(instance: &Instance) -> Result<()> {
    for mount in process::cgroup_mounts() {
        let folder = mount.join(instance.cgroup_root().trim_start_matches('/'));
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            inherit(&mount, &folder, file);
        }
    }
    Ok(())
}

/// On cgroup v1 a new cpuset is empty and accepts no process.
fn inherit(parent: &Path, child: &Path, file: &str) {
    if let Ok(value) = fs::read_to_string(parent.join(file)) {
        let _ = fs::write(child.join(file), value);
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}
