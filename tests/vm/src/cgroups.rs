//! The cgroup tree of the pods as text, with names instead of IDs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::guest::read;
use crate::node;

const ROOT: &str = "/sys/fs/cgroup";
const FILES: [&str; 12] = [
    "cpu.weight",
    "cpu.max",
    "cpuset.cpus",
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.max",
    "memory.swap.max",
    "memory.oom.group",
    "pids.max",
    "hugetlb.2MB.max",
    "io.weight",
];

/// One line per cgroup below `kubepods.slice` and file.
pub(crate) fn tree() -> Result<String> {
    let names = names()?;
    let mut lines = String::new();
    walk(&Path::new(ROOT).join("kubepods.slice"), &names, &mut lines)?;
    let mut sorted: Vec<&str> = lines.lines().collect();
    sorted.sort_unstable();
    Ok(sorted.join("\n") + "\n")
}

fn walk(folder: &Path, names: &BTreeMap<String, String>, lines: &mut String) -> Result<()> {
    let mut shown = folder.strip_prefix(ROOT).unwrap_or(folder).display().to_string();
    for (id, name) in names {
        shown = shown.replace(id, name);
    }
    // A sandbox is a container whose ID no pod's status has.
    if let Some((parent, leaf)) = shown.rsplit_once('/')
        && let Some(id) = leaf.strip_prefix("cri-containerd-")
        && id.len() == 64 + ".scope".len()
    {
        shown = format!("{parent}/cri-containerd-SANDBOX.scope");
    }
    for file in FILES {
        if let Ok(value) = read(folder.join(file)) {
            writeln!(lines, "{shown} {file} {}", value.trim())?;
        }
    }
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), names, lines)?;
        }
    }
    Ok(())
}

/// Pod UIDs, as systemd writes them, and container IDs with the names that replace them.
fn names() -> Result<BTreeMap<String, String>> {
    let mut names = BTreeMap::new();
    for pod in node::pods()? {
        let name = node::text(&pod, "/metadata/name");
        let name = name.trim_end_matches("-vm").to_uppercase();
        names.insert(node::text(&pod, "/metadata/uid").replace('-', "_"), name.clone());
        for status in node::statuses(&pod) {
            let id = node::text(&status, "/containerID");
            let id = id.rsplit('/').next().unwrap_or_default().to_owned();
            names.insert(id, node::text(&status, "/name"));
        }
    }
    names.retain(|id, _| !id.is_empty());
    Ok(names)
}
