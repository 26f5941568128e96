//! Hierarchies of cgroups on disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use model::CgroupLimits;
use ports::pod_folders::FileError;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::{CgroupVersion, limits, processes};
use crate::failure::OnPath;
use crate::mount_table;

const CGROUP2_MAGIC: u64 = 0x6367_7270;
/// The controllers that pods are limited by.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "memory", "hugetlb", "pids"];

/// Which version is mounted at `root`.
pub(super) fn version(root: &Path) -> Result<CgroupVersion, FileError> {
    let file_system = rustix::fs::statfs(root).on_path("look at cgroup root", root)?;
    match u64::try_from(file_system.f_type) {
        Ok(CGROUP2_MAGIC) => Ok(CgroupVersion::V2),
        Ok(_) | Err(_) => Ok(CgroupVersion::V1),
    }
}

/// The v1 hierarchies mounted below `root`, named ones included.
pub(super) fn mounted(root: &Path, table: &Path) -> Result<Vec<Hierarchy>, FileError> {
    let root = root.canonicalize().on_path("resolve cgroup root", root)?;
    let mounts = mount_table::read(table)?;
    let mut by_device = BTreeMap::new();
    for mount in mount_table::at_or_below(&mounts, &root) {
        if mount.fs_type == "cgroup" {
            by_device.entry(&mount.device).or_insert_with(|| Hierarchy {
                root: mount.mount_point.clone(),
                controllers: Controllers::Bound(mount.super_options.split(',').map(str::to_owned).collect()),
            });
        }
    }
    if by_device.is_empty() {
        return Err(io::Error::from(io::ErrorKind::NotFound)).on_path("find cgroup hierarchies below", root);
    }
    Ok(by_device.into_values().collect())
}

/// Which controllers work in a hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Controllers {
    /// v1: those it was mounted with (among the mount options).
    Bound(Vec<String>),
    /// v2: those that each parent passes on.
    PassedOn,
}

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    root: PathBuf,
    controllers: Controllers,
}

impl Hierarchy {
    /// The one hierarchy of v2.
    pub(super) fn unified(root: &Path) -> Self {
        Self { root: root.to_path_buf(), controllers: Controllers::PassedOn }
    }

    /// Where it is mounted.
    #[cfg(test)]
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Brings the limits of a cgroup that exists to `limits`, as far as this hierarchy has their controllers.
    pub(super) fn set_limits(&self, relative: &Path, limits: &CgroupLimits) -> Result<(), FileError> {
        let cgroup = self.root.join(relative);
        match &self.controllers {
            Controllers::Bound(names) => limits::set_v1(&cgroup, names, limits),
            Controllers::PassedOn => limits::set_v2(&cgroup, limits),
        }
    }

    /// Whether the cgroup is here, or need not be: what only the kernel's own controllers of other purposes hold is
    /// of no concern.
    pub(super) fn has(&self, relative: &Path) -> bool {
        const CONCERNED: [&str; 7] =
            ["cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "name=systemd"];
        let concerned = match &self.controllers {
            Controllers::Bound(names) => names.iter().any(|name| CONCERNED.contains(&name.as_str())),
            Controllers::PassedOn => true,
        };
        !concerned || self.root.join(relative).is_dir()
    }

    /// CPU and memory limits that this hierarchy holds.
    pub(super) fn limits(&self, relative: &Path) -> Result<CgroupLimits, FileError> {
        let cgroup = self.root.join(relative);
        match &self.controllers {
            Controllers::Bound(names) => limits::read_v1(&cgroup, names),
            Controllers::PassedOn => limits::read_v2(&cgroup),
        }
    }

    /// Memory used, if this hierarchy counts it.
    pub(super) fn memory_usage(&self, relative: &Path) -> Result<Option<u64>, FileError> {
        let cgroup = self.root.join(relative);
        match &self.controllers {
            Controllers::Bound(_) if !self.is_bound_to("memory") => Ok(None),
            Controllers::Bound(_) => limits::read_number(&cgroup.join("memory.usage_in_bytes")),
            Controllers::PassedOn => limits::read_number(&cgroup.join("memory.current")),
        }
    }

    /// Names of the cgroups directly below.
    pub(super) fn children(&self, relative: &Path) -> Result<Vec<String>, FileError> {
        let found = children(&self.root.join(relative))?;
        let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(found.into_iter().filter_map(name).collect())
    }

    /// Kills the processes in the cgroup and below.
    pub(super) fn kill_processes(&self, relative: &Path) -> Result<(), FileError> {
        self.with_children(relative)?.iter().try_for_each(|cgroup| processes::kill_all(cgroup))
    }

    /// Moves a process into a cgroup that exists; one that is gone needs no place.
    pub(super) fn enter(&self, relative: &Path, pid: u32) -> Result<(), FileError> {
        let file = self.root.join(relative).join("cgroup.procs");
        match std::fs::write(&file, pid.to_string()) {
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(()),
            result => result.on_path("move a process into", file),
        }
    }

    /// Whether it is the one of v2.
    pub(super) fn is_unified(&self) -> bool {
        self.controllers == Controllers::PassedOn
    }

    /// Whether what is in its root is in no cgroup at all. On v1 upstream looks where devices are: other controllers are
    /// left at the root unless somebody counts with them.
    pub(super) fn tells_the_root(&self) -> bool {
        self.is_unified() || self.is_bound_to("devices")
    }

    /// Processes directly in the root, in order.
    pub(super) fn root_processes(&self) -> Result<Vec<u32>, FileError> {
        let mut found = processes::numbers(&self.root.join("cgroup.procs"))?;
        found.sort_unstable();
        Ok(found)
    }

    /// Makes the cgroup and its parents where missing.
    pub(super) fn ensure(&self, relative: &Path) -> Result<(), FileError> {
        let mut parent = self.root.clone();
        for name in relative {
            let child = parent.join(name);
            if self.controllers == Controllers::PassedOn {
                pass_on_controllers(&parent);
            }
            match rustix::fs::mkdir(&child, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error).on_path("make cgroup", child),
            }
            // No process can enter a v1 cgroup before its CPUs and memory nodes are set.
            if self.is_bound_to("cpuset") {
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    inherit(&parent.join(file), &child.join(file))?;
                }
            }
            parent = child;
        }
        Ok(())
    }

    fn is_bound_to(&self, controller: &str) -> bool {
        match &self.controllers {
            Controllers::Bound(names) => names.iter().any(|name| name == controller),
            Controllers::PassedOn => false,
        }
    }

    /// Removes the cgroup, children first.
    pub(super) fn remove(&self, relative: &Path) -> Result<(), FileError> {
        for cgroup in self.with_children(relative)?.into_iter().rev() {
            match rustix::fs::rmdir(&cgroup) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error).on_path("remove cgroup", cgroup),
            }
        }
        Ok(())
    }

    /// The cgroup and all below it, parents first.
    fn with_children(&self, relative: &Path) -> Result<Vec<PathBuf>, FileError> {
        let mut found = Vec::new();
        let mut unseen = vec![self.root.join(relative)];
        while let Some(cgroup) = unseen.pop() {
            for child in children(&cgroup)? {
                unseen.push(child);
            }
            found.push(cgroup);
        }
        Ok(found)
    }
}

fn children(cgroup: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = match std::fs::read_dir(cgroup) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).on_path("list cgroup", cgroup),
    };
    let mut children = Vec::new();
    for entry in entries {
        match entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))) {
            Ok((kind, path)) if kind.is_dir() => children.push(path),
            Ok(_) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error).on_path("list cgroup", cgroup),
        }
    }
    Ok(children)
}

/// A cgroup removed by somebody else while open answers ENODEV.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

/// Copies a setting from the parent if the child has none.
fn inherit(parent: &Path, child: &Path) -> Result<(), FileError> {
    let own = std::fs::read_to_string(child).on_path("read", child)?;
    if !own.trim().is_empty() {
        return Ok(());
    }
    let inherited = std::fs::read_to_string(parent).on_path("read", parent)?;
    std::fs::write(child, inherited.trim()).on_path("write", child)
}

/// Best effort: a controller that cannot be passed on shows when a limit is set, with a better message.
fn pass_on_controllers(parent: &Path) {
    let read = |file: &str| std::fs::read_to_string(parent.join(file)).unwrap_or_default();
    let (available, passed_on) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    for controller in CONTROLLERS {
        let has = |list: &str| list.split_whitespace().any(|name| name == controller);
        if has(&available) && !has(&passed_on) {
            let _ = std::fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"));
        }
    }
}
