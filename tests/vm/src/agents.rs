//! The two agents as systemd services with the same configuration; one runs at a time.

use anyhow::Result;
use serde_json::{Value, json};

use crate::guest::{eventually, sh, write};
use crate::{file, node};

pub(crate) const MANIFESTS: &str = "/etc/kubernetes/manifests";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Agent {
    Podward,
    Upstream,
}

impl Agent {
    /// Also the name of the folder of its observations.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Podward => "podward",
            Self::Upstream => "kubelet",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Podward => Self::Upstream,
            Self::Upstream => Self::Podward,
        }
    }
}

/// Stops the other agent, starts this one and waits until it serves its pods.
pub(crate) fn switch_to(agent: Agent) -> Result<()> {
    sh(&format!("systemctl stop {}; systemctl start {}", agent.other().unit(), agent.unit()))?;
    wait_healthy()
}

pub(crate) fn wait_healthy() -> Result<()> {
    eventually("agent is healthy", || {
        node::get_from(10248, "/healthz")?;
        node::get("/pods").map(drop)
    })
}

/// Containerd with the systemd cgroup driver, the test images, a pod network and both services.
pub(crate) fn set_up_machine() -> Result<()> {
    write("/etc/containerd/config.toml", CONTAINERD)?;
    write("/etc/cni/net.d/10-pods.conflist", &network().to_string())?;
    write("/etc/kubernetes/kubelet.yaml", &configuration(json!({})).to_string())?;
    let podward = file("podward");
    let kubelet = file("kubelet");
    write("/etc/systemd/system/podward.service", &unit(&format!("{} agent", podward.display())))?;
    write("/etc/systemd/system/kubelet.service", &unit(&kubelet.display().to_string()))?;
    sh(&format!("mkdir -p {MANIFESTS} && systemctl daemon-reload && systemctl restart containerd"))?;
    import_images()
}

pub(crate) fn import_images() -> Result<()> {
    let images = file("images.tar");
    sh(&format!("ctr -n k8s.io images import {} >/dev/null", images.display())).map(drop)
}

/// Writes the configuration with `overlay` merged into its top level.
pub(crate) fn configure(overlay: Value) -> Result<()> {
    write("/etc/kubernetes/kubelet.yaml", &configuration(overlay).to_string())
}

fn configuration(overlay: Value) -> Value {
    let mut configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": MANIFESTS,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "systemd",
        "address": "127.0.0.1",
        "readOnlyPort": 10255,
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "clusterDNS": ["10.96.0.10"],
        // Requests for the node and its lease end with their period; an emulated API server needs longer than ten seconds.
        "nodeStatusUpdateFrequency": "30s",
        "nodeLeaseDurationSeconds": 120,
        "podPidsLimit": 200,
        "volumeStatsAggPeriod": "10s",
        "shutdownGracePeriod": "90s",
        "shutdownGracePeriodCriticalPods": "30s",
    });
    if let (Value::Object(all), Value::Object(changes)) = (&mut configuration, overlay) {
        all.extend(changes);
    }
    configuration
}

/// The watchdog's period is long enough for an emulated machine. In the second boot `vm.service` mounts the disk with the
/// program.
fn unit(command: &str) -> String {
    format!(
        "[Unit]\nDescription=Node agent\nAfter=containerd.service vm.service\nStartLimitIntervalSec=0\n\
         [Service]\nType=notify\nNotifyAccess=all\nWatchdogSec=40s\nRestart=always\nRestartSec=1s\nKillMode=process\n\
         TimeoutStartSec=5min\n\
         ExecStart={command} --config=/etc/kubernetes/kubelet.yaml --hostname-override=vm --node-ip=127.0.0.1 $VM_AGENT_OPTIONS\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

fn network() -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge", "bridge": "pods0", "isGateway": true,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.99.0.0/24"}]]},
        }],
    })
}

/// In the format of version 1.7, which 2.x reads, too.
const CONTAINERD: &str = r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "podward.test/pause:1"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = true
"#;
