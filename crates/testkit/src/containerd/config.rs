//! The files containerd reads: its configuration and the pod network.

use std::fs;

use anyhow::{Context, Result};
use serde_json::json;

use crate::images;
use crate::instance::Instance;

/// Writes `config.toml` in the format of that version, and the network configuration.
pub(super) fn write(instance: &Instance, version: &str) -> Result<()> {
    let modern = !version.starts_with("1.");
    let common = common(instance, modern);
    let plugins = if modern { version_2(instance) } else { version_1(instance) };
    fs::write(instance.path("config.toml"), common + &plugins).context("write config.toml")?;
    fs::create_dir_all(instance.path("cni")).context("create the network folder")?;
    fs::write(instance.path("cni/10-pods.conflist"), network(instance))
        .context("write the network configuration")
}

pub(super) fn snapshotter() -> &'static str {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.contains("\toverlay") { "overlayfs" } else { "native" }
}

fn common(instance: &Instance, modern: bool) -> String {
    let base = instance.folder().display();
    let format = if modern { 3 } else { 2 };
    format!(
        r#"version = {format}
root = "{base}/root"
state = "{base}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing", "io.containerd.nri.v1.nri",
]
[grpc]
address = "{base}/c.sock"
[ttrpc]
address = "{base}/c.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "{base}/opt"
"#
    )
}

fn version_1(instance: &Instance) -> String {
    let base = instance.folder().display();
    let pause = images::PAUSE;
    let snapshotter = snapshotter();
    let registries = registries(instance);
    format!(
        r#"[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{base}/runc"
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{registries}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{base}/cni"
"#
    )
}

fn version_2(instance: &Instance) -> String {
    let base = instance.folder().display();
    let pause = images::PAUSE;
    let snapshotter = snapshotter();
    let registries = registries(instance);
    format!(
        r#"[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshotter}"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{registries}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
cdi_spec_dirs = ["{base}/cdi"]
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{base}/runc"
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{base}/cni"
[plugins."io.containerd.grpc.v1.cri"]
stream_server_address = "127.0.0.1"
stream_server_port = "0"
"#
    )
}

/// The folder with a `hosts.toml` for each registry; empty for the defaults.
fn registries(instance: &Instance) -> String {
    let folder = instance.path("hosts");
    if folder.exists() { folder.display().to_string() } else { String::new() }
}

fn network(instance: &Instance) -> String {
    let mut plugins = vec![json!({
        "type": "bridge",
        "bridge": instance.bridge(),
        "isGateway": true,
        "ipMasq": false,
        "hairpinMode": true,
        "ipam": {
            "type": "host-local",
            "dataDir": instance.path("ipam"),
            "ranges": [[{"subnet": format!("{}.0/24", instance.subnet())}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    })];
    let tables = ["/usr/sbin/iptables", "/sbin/iptables"];
    if tables.iter().any(|path| fs::exists(path).unwrap_or(false)) {
        plugins.push(json!({"type": "portmap", "capabilities": {"portMappings": true}}));
    }
    json!({"cniVersion": "0.4.0", "name": instance.bridge(), "plugins": plugins}).to_string()
}
