//! Configuration of the machine's containerd, which is at its usual place.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::images;

/// Defaults of containerd 2, except for the sandbox image, the folder of CNI plugins, and what needs a service or
/// kernel module that the machine does not have.
pub(super) fn write_configuration(path: &Path) -> Result<()> {
    let pause = images::sandbox_image();
    let text = format!(
        r#"version = 3
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing", "io.containerd.nri.v1.nri",
]
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "/etc/cni/net.d"
"#
    );
    fs::write(path, text).context("write containerd.toml")
}
