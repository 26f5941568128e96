//! Parts of the host that become a container's root: detached copies of mounts.
//!
//! They are taken before the process enters the pod's user namespace, because only root of the host may reach the paths and map
//! owners, and before the propagation of the host's mounts is cut, because a bidirectional mount must stay in the peer group of
//! its source.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::devices::{self, HostDevice};
use super::errors::{During, LaunchError};
use super::in_root::Kind;
use super::raw::{MountAttributes, mount_setattr};
use super::spec::{ContainerSpec, FileOwners, FilesystemKind, MountSource, MountSpec, Propagation};
use super::{mounts, propagation, user_namespace};

/// A mount that is not attached yet.
pub(super) struct DetachedMount {
    pub(super) tree: OwnedFd,
    pub(super) kind: Kind,
}

/// The part of the host for one mount.
pub(super) enum Source {
    /// The mount is a new file system.
    None,
    Tree(DetachedMount),
    /// The host's `/sys`: a user namespace cannot mount a new one that belongs to the host's network namespace.
    HostSysfs(DetachedMount),
    /// By the names of their directories.
    Cgroups(Vec<(String, OwnedFd)>),
}

pub(super) struct Sources {
    pub(super) root: OwnedFd,
    /// In the order of the mounts in the spec.
    pub(super) mounts: Vec<Source>,
    /// With a user namespace.
    pub(super) devices: Option<Vec<HostDevice>>,
}

impl Sources {
    pub(super) fn take(spec: &ContainerSpec, user: Option<BorrowedFd<'_>>) -> Result<Self, LaunchError> {
        let take = |mount| take_source(mount, spec.namespaces.network.is_some(), user);
        let mounts = spec.mounts.iter().map(take).collect::<Result<_, _>>()?;
        let devices = user.map(|_| devices::clone_from_host(&spec.devices)).transpose()?;
        Ok(Self { root: clone_root(spec, user)?, mounts, devices })
    }
}

fn clone_root(spec: &ContainerSpec, user: Option<BorrowedFd<'_>>) -> Result<OwnedFd, LaunchError> {
    let path = spec.root.as_path();
    let flags = mounts::clone_flags() | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let root = open_tree(CWD, path, flags).during("clone root", path)?;
    set_propagation(root.as_fd(), libc::MS_PRIVATE, path)?;
    if let (Some(user), FileOwners::Mapped) = (user, spec.root_owners) {
        user_namespace::map_owners(root.as_fd(), path, user)?;
    }
    Ok(root)
}

fn take_source(
    mount: &MountSpec,
    own_network: bool,
    user: Option<BorrowedFd<'_>>,
) -> Result<Source, LaunchError> {
    match &mount.source {
        MountSource::Bind { path, propagation } => {
            if user.is_some() && *propagation == Propagation::Bidirectional {
                let reason = "a user namespace must not mount on the host";
                let path = mount.destination.display().to_string();
                return Err(LaunchError::Destination { path, reason });
            }
            let source = clone_bind_source(path, *propagation)?;
            if let (Some(user), FileOwners::Mapped) = (user, mount.owners) {
                user_namespace::map_owners(source.tree.as_fd(), path, user)?;
            }
            Ok(Source::Tree(source))
        }
        MountSource::New { kind: FilesystemKind::Sysfs, .. } if user.is_some() && !own_network => {
            clone_bind_source(Path::new("/sys"), Propagation::Private).map(Source::HostSysfs)
        }
        MountSource::New { .. } => Ok(Source::None),
        MountSource::Cgroups(hierarchies) => {
            let mut cgroups = Vec::new();
            for hierarchy in hierarchies {
                let path = &hierarchy.directory;
                let tree = open_tree(CWD, path, mounts::clone_flags()).during("clone cgroup", path)?;
                cgroups.push((hierarchy.name.clone(), tree));
            }
            Ok(Source::Cgroups(cgroups))
        }
    }
}

fn clone_bind_source(path: &Path, propagation: Propagation) -> Result<DetachedMount, LaunchError> {
    let source = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .during("open bind source", path)?;
    propagation::check_source(source.as_fd(), path, propagation)?;
    let tree = mounts::clone_tree(source.as_fd()).during("clone bind source", path)?;
    let kind = kind_of(source.as_fd()).during("read kind of bind source", path)?;
    let value = match propagation {
        Propagation::Private => libc::MS_PRIVATE,
        Propagation::HostToContainer => libc::MS_SLAVE,
        Propagation::Bidirectional => libc::MS_SHARED,
    };
    set_propagation(tree.as_fd(), value, path)?;
    Ok(DetachedMount { tree, kind })
}

fn set_propagation(tree: BorrowedFd<'_>, propagation: u64, path: &Path) -> Result<(), LaunchError> {
    let attributes = MountAttributes { propagation, ..MountAttributes::default() };
    mount_setattr(tree, attributes, true).during("set propagation of", path)
}

fn kind_of(file: BorrowedFd<'_>) -> Result<Kind, Errno> {
    let status = rustix::fs::fstat(file)?;
    let directory = FileType::from_raw_mode(status.st_mode).is_dir();
    Ok(if directory { Kind::Directory } else { Kind::File })
}
