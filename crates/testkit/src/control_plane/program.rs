//! Locations of the control plane's programs.

use std::path::PathBuf;

use anyhow::{Result, ensure};

const BUILT: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// Debian's, which needs no build.
const ETCD: &str = "/usr/bin/etcd";

/// Path of a program: etcd as Debian installs it, the others from the cache of built tools.
pub(super) fn path(name: &str) -> PathBuf {
    if name == "etcd" { ETCD.into() } else { built(name) }
}

/// Path of a program in the cache of built tools.
pub fn built(name: &str) -> PathBuf {
    let home = std::env::var_os("HOME").map_or("/root".into(), PathBuf::from);
    let cache = std::env::var_os("PODWARD_CACHE").map_or_else(|| home.join(".cache/podward"), PathBuf::from);
    cache.join("bin").join(name)
}

/// Fails if a program is missing, and names the command that installs it.
pub(super) fn check() -> Result<()> {
    ensure!(path("etcd").exists(), "etcd is missing: run make setup");
    for name in BUILT {
        ensure!(path(name).exists(), "{} is missing: run make tools", path(name).display());
    }
    Ok(())
}
