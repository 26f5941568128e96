//! Everything on the machine that belongs to a node with podward's own runtime, to find what is left of its pods.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::instance::Instance;
use crate::process;

/// Mounts (with pinned namespaces), cgroups, links, nf_tables rules, keepers, and files of the runtime and of pods. One line
/// per fact.
pub fn of_pods(instance: &Instance) -> Result<BTreeSet<String>> {
    let mut facts = BTreeSet::new();
    let mark = format!("{}/", instance.folder().display());
    facts.extend(
        process::mount_points()
            .into_iter()
            .filter(|point| point.starts_with(&mark))
            .map(|at| format!("mount {at}")),
    );
    for mount in process::cgroup_mounts() {
        let root = mount.join(instance.cgroup_root().trim_start_matches('/'));
        walk(&root, Kind::Folders, &mut |path| facts.insert(format!("cgroup {path}")));
    }
    let ports = Path::new("/sys/class/net").join(instance.bridge()).join("brif");
    walk(&ports, Kind::All, &mut |path| facts.insert(format!("link {path}")));
    facts.extend(rules(&instance.bridge())?.into_iter().map(|line| format!("rule {line}")));
    facts.extend(keepers(instance).into_iter().map(|pid| format!("keeper {pid}")));
    for folder in ["network", "sandboxes", "containers", "run", "images/roots", "images/staging"] {
        let folder = instance.path("kubelet/podward/runtime").join(folder);
        walk(&folder, Kind::All, &mut |path| facts.insert(format!("file {path}")));
    }
    for folder in ["kubelet/pods", "logs"] {
        walk(&instance.path(folder), Kind::All, &mut |path| facts.insert(format!("file {path}")));
    }
    Ok(facts)
}

/// The keepers of the node's pods.
pub fn keepers(instance: &Instance) -> Vec<u32> {
    let folder = instance.path("kubelet/podward/runtime/run").display().to_string();
    let is_keeper = |pid: &u32| {
        process::command_line(*pid)
            .is_some_and(|line| line.starts_with("podward-keeper") && line.contains(&folder))
    };
    process::all().into_iter().filter(is_keeper).filter(|pid| !process::is_zombie(*pid)).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    All,
    Folders,
}

fn walk(folder: &Path, kind: Kind, found: &mut impl FnMut(String) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder || kind == Kind::All {
            found(entry.path().display().to_string());
        }
        if is_folder {
            walk(&entry.path(), kind, found);
        }
    }
}

/// The lines of the node's table; none if there is no table.
fn rules(table: &str) -> Result<Vec<String>> {
    let output = Command::new("nft").args(["list", "table", "inet", table]).output().context("start nft")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}
