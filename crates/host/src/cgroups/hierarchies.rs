//! Mounted cgroup hierarchies.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use model::{CgroupLimits, CgroupVersion};
use ports::host::pod_folders::FileError;
use rustix::fs::Mode;
use rustix::io::Errno;

use super::{limits, processes};
use crate::errors::{IfExists, OnPath};
use crate::mount_table;

const CGROUP2_MAGIC: u64 = 0x6367_7270;
/// Controllers that limit pods.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "memory", "hugetlb", "pids"];

pub(super) fn version(root: &Path) -> Result<CgroupVersion, FileError> {
    let file_system = rustix::fs::statfs(root).on_path("stat cgroup root", root)?;
    match u64::try_from(file_system.f_type) {
        Ok(CGROUP2_MAGIC) => Ok(CgroupVersion::V2),
        Ok(_) | Err(_) => Ok(CgroupVersion::V1),
    }
}

/// The v1 hierarchies mounted below `root`, including named ones.
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

/// The controllers of a hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Controllers {
    /// v1: the controllers are among these mount options.
    Bound(Vec<String>),
    /// v2: the controllers that each parent delegates.
    Delegated,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    root: PathBuf,
    controllers: Controllers,
}

impl Hierarchy {
    /// The single hierarchy of v2.
    pub(super) fn unified(root: &Path) -> Self {
        Self { root: root.to_path_buf(), controllers: Controllers::Delegated }
    }

    #[cfg(test)]
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Sets those limits of an existing cgroup whose controllers this hierarchy has.
    pub(super) fn set_limits(&self, relative: &Path, limits: &CgroupLimits) -> Result<(), FileError> {
        let cgroup = self.root.join(relative);
        match &self.controllers {
            Controllers::Bound(names) => limits::set_v1(&cgroup, names, limits),
            Controllers::Delegated => limits::set_v2(&cgroup, limits),
        }
    }

    /// Whether the cgroup exists, or need not exist because this hierarchy has none of the controllers that pods use.
    pub(super) fn has(&self, relative: &Path) -> bool {
        const USED: [&str; 7] = ["cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "name=systemd"];
        let is_used = match &self.controllers {
            Controllers::Bound(names) => names.iter().any(|name| USED.contains(&name.as_str())),
            Controllers::Delegated => true,
        };
        !is_used || self.root.join(relative).is_dir()
    }

    /// The CPU and memory limits in this hierarchy.
    pub(super) fn limits(&self, relative: &Path) -> Result<CgroupLimits, FileError> {
        let cgroup = self.root.join(relative);
        match &self.controllers {
            Controllers::Bound(names) => limits::read_v1(&cgroup, names),
            Controllers::Delegated => limits::read_v2(&cgroup),
        }
    }

    /// `None` if this hierarchy does not have the memory controller.
    pub(super) fn memory_usage(&self, relative: &Path) -> Result<Option<u64>, FileError> {
        let cgroup = self.root.join(relative);
        match &self.controllers {
            Controllers::Bound(_) if !self.has_v1_controller("memory") => Ok(None),
            Controllers::Bound(_) => limits::read_number(&cgroup.join("memory.usage_in_bytes")),
            Controllers::Delegated => limits::read_number(&cgroup.join("memory.current")),
        }
    }

    /// Names of the direct children.
    pub(super) fn children(&self, relative: &Path) -> Result<Vec<String>, FileError> {
        let found = children(&self.root.join(relative))?;
        let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(found.into_iter().filter_map(name).collect())
    }

    /// Kills the processes in the cgroup and its descendants.
    pub(super) fn kill_processes(&self, relative: &Path) -> Result<(), FileError> {
        self.with_descendants(relative)?.iter().try_for_each(|cgroup| processes::kill_all(cgroup))
    }

    /// Moves a process into an existing cgroup. Succeeds if the process has exited.
    pub(super) fn enter(&self, relative: &Path, pid: u32) -> Result<(), FileError> {
        let file = self.root.join(relative).join("cgroup.procs");
        match std::fs::write(&file, pid.to_string()) {
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(()),
            result => result.on_path("move a process into", file),
        }
    }

    pub(super) fn is_unified(&self) -> bool {
        self.controllers == Controllers::Delegated
    }

    /// Whether a process in the root of this hierarchy belongs to no cgroup. On v1 upstream uses the devices hierarchy,
    /// because processes stay in the root of other hierarchies if their controller is not used.
    pub(super) fn identifies_root_processes(&self) -> bool {
        self.is_unified() || self.has_v1_controller("devices")
    }

    /// Processes directly in the root, ordered by PID.
    pub(super) fn root_processes(&self) -> Result<Vec<u32>, FileError> {
        let mut found = processes::raw_pids(&self.root.join("cgroup.procs"))?;
        found.sort_unstable();
        Ok(found)
    }

    /// Creates the cgroup and its parents if missing.
    pub(super) fn ensure(&self, relative: &Path) -> Result<(), FileError> {
        let mut parent = self.root.clone();
        for name in relative {
            let child = parent.join(name);
            if self.controllers == Controllers::Delegated {
                delegate_controllers(&parent);
            }
            match rustix::fs::mkdir(&child, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error).on_path("make cgroup", child),
            }
            // A v1 cgroup accepts no process until its CPUs and memory nodes are set.
            if self.has_v1_controller("cpuset") {
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    inherit(&parent.join(file), &child.join(file))?;
                }
            }
            parent = child;
        }
        Ok(())
    }

    fn has_v1_controller(&self, controller: &str) -> bool {
        match &self.controllers {
            Controllers::Bound(names) => names.iter().any(|name| name == controller),
            Controllers::Delegated => false,
        }
    }

    /// Removes the cgroup, descendants first.
    pub(super) fn remove(&self, relative: &Path) -> Result<(), FileError> {
        for cgroup in self.with_descendants(relative)?.into_iter().rev() {
            rustix::fs::rmdir(&cgroup).if_exists().on_path("remove cgroup", cgroup)?;
        }
        Ok(())
    }

    /// The cgroup and its descendants, parents first.
    fn with_descendants(&self, relative: &Path) -> Result<Vec<PathBuf>, FileError> {
        let mut found = Vec::new();
        let mut pending = vec![self.root.join(relative)];
        while let Some(cgroup) = pending.pop() {
            pending.extend(children(&cgroup)?);
            found.push(cgroup);
        }
        Ok(found)
    }
}

fn children(cgroup: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = match std::fs::read_dir(cgroup) {
        Ok(entries) => entries,
        Err(error) if is_removed(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).on_path("list cgroup", cgroup),
    };
    let mut children = Vec::new();
    for entry in entries {
        match entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))) {
            Ok((kind, path)) if kind.is_dir() => children.push(path),
            Ok(_) => {}
            Err(error) if is_removed(&error) => {}
            Err(error) => return Err(error).on_path("list cgroup", cgroup),
        }
    }
    Ok(children)
}

/// Reading a cgroup that was removed while open fails with ENODEV.
pub(super) fn is_removed(error: &io::Error) -> bool {
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

/// Best effort: if a controller cannot be delegated, setting its limit fails later with a better message.
fn delegate_controllers(parent: &Path) {
    let read = |file: &str| std::fs::read_to_string(parent.join(file)).unwrap_or_default();
    let (available, delegated) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    for controller in CONTROLLERS {
        let has = |list: &str| list.split_whitespace().any(|name| name == controller);
        if has(&available) && !has(&delegated) {
            let _ = std::fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"));
        }
    }
}
