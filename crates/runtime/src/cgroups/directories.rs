//! The cgroups of one container: one directory per hierarchy.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::devices::DeviceRule;
use super::layout::CgroupLayout;
use super::resources::{FileWrite, Required, Resources, ResourcesError};
use super::{bpf, device_program, kill, v1, v2};

/// A cgroup can be removed some milliseconds after its last process was waited for.
const REMOVE_PAUSES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

#[derive(Debug, Error)]
pub enum CgroupError {
    #[error("{operation} cgroup {path:?}")]
    Directory { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("write {value:?} to {path:?}")]
    Write { path: PathBuf, value: String, source: io::Error },
    #[error("the controller {0} is not available")]
    NoController(String),
    #[error(transparent)]
    Resources(#[from] ResourcesError),
    #[error("processes of cgroup {path:?} do not end")]
    Busy { path: PathBuf },
    #[error("restrict devices of cgroup {path:?}")]
    Devices { path: PathBuf, source: io::Error },
}

/// The cgroups of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerCgroup {
    layout: CgroupLayout,
    path: PathBuf,
}

impl ContainerCgroup {
    /// Makes the cgroups with those above them. Existing ones are used.
    ///
    /// # Errors
    /// If one cannot be made; the others stay, and [`remove`](Self::remove) removes them.
    pub fn make(layout: &CgroupLayout, path: &Path) -> Result<Self, CgroupError> {
        let cgroup = Self { layout: layout.clone(), path: path.to_owned() };
        match layout {
            CgroupLayout::V2 { mount } => make_v2(mount, path)?,
            CgroupLayout::V1 { hierarchies } => {
                for hierarchy in hierarchies {
                    let has_cpuset = hierarchy.controllers.iter().any(|name| name == "cpuset");
                    make_v1(&hierarchy.mount, path, has_cpuset)?;
                }
            }
        }
        Ok(cgroup)
    }

    /// The cgroups at a path, which may be missing.
    #[must_use]
    pub fn at(layout: &CgroupLayout, path: &Path) -> Self {
        Self { layout: layout.clone(), path: path.to_owned() }
    }

    /// Puts a process into all of them.
    ///
    /// # Errors
    /// If the process has ended or the kernel refuses it.
    pub fn add_process(&self, pid: u32) -> Result<(), CgroupError> {
        self.directories()
            .iter()
            .try_for_each(|directory| write(&directory.join("cgroup.procs"), &pid.to_string()))
    }

    /// Kills everything in them and below, and waits until it has ended. Does nothing for missing cgroups.
    ///
    /// # Errors
    /// If processes are left: they do not end while the kernel waits for a device.
    pub fn kill_all(&self) -> Result<(), CgroupError> {
        kill::kill_all(&self.directories())
    }

    /// The directories, one per hierarchy.
    #[must_use]
    pub fn directories(&self) -> Vec<PathBuf> {
        match &self.layout {
            CgroupLayout::V2 { mount } => vec![mount.join(&self.path)],
            CgroupLayout::V1 { hierarchies } => {
                hierarchies.iter().map(|hierarchy| hierarchy.mount.join(&self.path)).collect()
            }
        }
    }

    /// The file that counts processes killed for lack of memory.
    #[must_use]
    pub fn oom_counter(&self) -> Option<PathBuf> {
        let file = match &self.layout {
            CgroupLayout::V2 { .. } => "memory.events",
            CgroupLayout::V1 { .. } => "memory.oom_control",
        };
        Some(self.directory_of("memory").ok()?.join(file))
    }

    /// Writes limits, before the container starts or while it runs.
    ///
    /// # Errors
    /// If a limit cannot be enforced.
    pub fn apply(&self, resources: &Resources) -> Result<(), CgroupError> {
        let writes = match &self.layout {
            CgroupLayout::V2 { .. } => v2::writes(resources)?,
            CgroupLayout::V1 { .. } => v1::writes(resources, self.v1_swap_limit())?,
        };
        writes.iter().try_for_each(|write| self.write(write))
    }

    /// Refuses all devices except those of the rules.
    ///
    /// # Errors
    /// If the kernel cannot enforce it.
    pub fn restrict_devices(&self, rules: &[DeviceRule]) -> Result<(), CgroupError> {
        let directory = self.directory_of("devices")?;
        match &self.layout {
            CgroupLayout::V2 { .. } => restrict_with_program(&directory, rules),
            CgroupLayout::V1 { .. } => {
                write(&directory.join("devices.deny"), "a")?;
                let lines = rules.iter().flat_map(DeviceRule::v1_lines);
                lines.into_iter().try_for_each(|line| write(&directory.join("devices.allow"), &line))
            }
        }
    }

    /// Removes the cgroups with those that the container made below them. No process may be left.
    ///
    /// # Errors
    /// If a process is left. What is missing already is no error.
    pub fn remove(&self) -> Result<(), CgroupError> {
        self.directories().iter().try_for_each(|directory| remove_tree(directory))
    }

    pub(super) fn layout(&self) -> &CgroupLayout {
        &self.layout
    }

    pub(super) fn directory_of(&self, controller: &str) -> Result<PathBuf, CgroupError> {
        match &self.layout {
            CgroupLayout::V2 { mount } => Ok(mount.join(&self.path)),
            CgroupLayout::V1 { hierarchies } => hierarchies
                .iter()
                .find(|hierarchy| hierarchy.controllers.iter().any(|name| name == controller))
                .map(|hierarchy| hierarchy.mount.join(&self.path))
                .ok_or_else(|| CgroupError::NoController(controller.to_owned())),
        }
    }

    fn v1_swap_limit(&self) -> Option<u64> {
        let file = self.directory_of("memory").ok()?.join("memory.memsw.limit_in_bytes");
        fs::read_to_string(file).ok()?.trim().parse().ok()
    }

    fn write(&self, file: &FileWrite) -> Result<(), CgroupError> {
        let directory = match (self.directory_of(&file.controller), file.file_required) {
            (Err(_), Required::No) => return Ok(()),
            (directory, Required::Yes | Required::No) => directory?,
        };
        let path = directory.join(&file.file);
        if file.file_required == Required::No && !path.exists() {
            return Ok(());
        }
        write(&path, &file.value)
    }
}

pub(super) fn restrict_with_program(directory: &Path, rules: &[DeviceRule]) -> Result<(), CgroupError> {
    let attach = || {
        let cgroup = fs::File::open(directory)?;
        bpf::attach(cgroup.as_fd(), &device_program::program(rules))
    };
    attach().map_err(|source| CgroupError::Devices { path: directory.to_owned(), source })
}

/// Enables all controllers on the way, so that limits of the container have files.
fn make_v2(mount: &Path, path: &Path) -> Result<(), CgroupError> {
    let mut directory = mount.to_owned();
    for part in path {
        let available = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
        for controller in available.split_whitespace() {
            // Some controllers cannot be enabled everywhere; a limit that needs one fails when it is written.
            let _ = fs::write(directory.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        directory.push(part);
        make_directory(&directory)?;
    }
    Ok(())
}

/// A cpuset must have processors and memory nodes before a process may join it.
fn make_v1(mount: &Path, path: &Path, has_cpuset: bool) -> Result<(), CgroupError> {
    let mut directory = mount.to_owned();
    for part in path {
        let parent = directory.clone();
        directory.push(part);
        make_directory(&directory)?;
        for file in ["cpuset.cpus", "cpuset.mems"].iter().filter(|_| has_cpuset) {
            let own = fs::read_to_string(directory.join(file)).unwrap_or_default();
            if own.trim().is_empty() {
                let inherited = fs::read_to_string(parent.join(file)).unwrap_or_default();
                write(&directory.join(file), inherited.trim())?;
            }
        }
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(CgroupError::Directory { operation: "make", path: path.to_owned(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes a directory after those in it. The files in a cgroup disappear with it.
fn remove_tree(path: &Path) -> Result<(), CgroupError> {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    let mut pauses = REMOVE_PAUSES.iter();
    loop {
        let error = match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => error,
        };
        match pauses.next() {
            // Runs on a thread for blocking work.
            Some(pause) => std::thread::park_timeout(Duration::from_millis(*pause)),
            None => {
                return Err(CgroupError::Directory {
                    operation: "remove",
                    path: path.to_owned(),
                    source: error,
                });
            }
        }
    }
}

fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    fs::write(path, value).map_err(|source| CgroupError::Write {
        path: path.to_owned(),
        value: value.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
