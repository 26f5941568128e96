//! Access to cgroup files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::Node;
use testkit::poll::eventually;

const FOLDER: &str = "/sys/fs/cgroup";

/// A limit: controller and file on v1, file on v2.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    controller: &'static str,
    v1: &'static str,
    v2: &'static str,
}

pub(crate) const SHARES: Limit = Limit { controller: "cpu", v1: "cpu.shares", v2: "cpu.weight" };
pub(crate) const QUOTA: Limit = Limit { controller: "cpu", v1: "cpu.cfs_quota_us", v2: "cpu.max" };
pub(crate) const CPUS: Limit = Limit { controller: "cpuset", v1: "cpuset.cpus", v2: "cpuset.cpus" };
pub(crate) const MEMS: Limit = Limit { controller: "cpuset", v1: "cpuset.mems", v2: "cpuset.mems" };
pub(crate) const MEMORY: Limit =
    Limit { controller: "memory", v1: "memory.limit_in_bytes", v2: "memory.max" };
pub(crate) const PIDS: Limit = Limit { controller: "pids", v1: "pids.max", v2: "pids.max" };

/// Whether the machine uses the unified hierarchy.
pub(crate) fn is_v2() -> bool {
    Path::new(FOLDER).join("cgroup.controllers").exists()
}

/// Path of a node's cgroup in one hierarchy.
pub(crate) fn folder(node: &Node, controller: &str, group: &str) -> PathBuf {
    let root = node.runtime.instance().cgroup_root();
    let hierarchy = if is_v2() { PathBuf::from(FOLDER) } else { Path::new(FOLDER).join(controller) };
    hierarchy.join(root.trim_start_matches('/')).join(group)
}

/// Hierarchies in which pod cgroups are created.
pub(crate) fn hierarchies() -> Vec<&'static str> {
    let all = ["cpu", "cpuacct", "cpuset", "memory", "pids", "systemd"];
    if is_v2() {
        vec![""]
    } else {
        all.into_iter().filter(|name| Path::new(FOLDER).join(name).exists()).collect()
    }
}

pub(crate) fn read(node: &Node, group: &str, limit: Limit) -> Result<String> {
    let path = folder(node, limit.controller, group).join(if is_v2() { limit.v2 } else { limit.v1 });
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// Waits until a limit has the expected value, which differs between v1 and v2.
pub(crate) async fn wait_limit(node: &Node, group: &str, limit: Limit, v1: &str, v2: &str) -> Result<()> {
    let expected = if is_v2() { v2 } else { v1 };
    eventually(&format!("{group} {}", limit.v1), Duration::from_secs(60), async || {
        let found = read(node, group, limit)?;
        ensure!(found == expected, "{found}, not {expected}");
        Ok(())
    })
    .await
}

/// Waits until a cgroup exists in no hierarchy.
pub(crate) async fn wait_no_cgroup(node: &Node, group: &str) -> Result<()> {
    eventually(&format!("{group} gone"), Duration::from_secs(60), async || {
        for hierarchy in hierarchies() {
            let folder = folder(node, hierarchy, group);
            ensure!(!folder.exists(), "{} is there", folder.display());
        }
        Ok(())
    })
    .await
}
