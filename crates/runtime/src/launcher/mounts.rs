//! Mounts of a container. Every mount is made detached, gets its attributes, and is then attached to a descriptor of its
//! destination, so that no path is resolved twice.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::destination;
use super::errors::{During, LaunchError};
use super::in_root::{self, Kind};
use super::propagation;
use super::raw::{MountAttributes, mount_setattr};
use super::spec::{
    CgroupHierarchy, FilesystemKind, MountAccess, MountAttribute, MountSource, MountSpec, Propagation,
};

/// A mount that is not attached yet.
pub(super) struct DetachedMount {
    pub(super) tree: OwnedFd,
    pub(super) kind: Kind,
}

/// Clones the sources of bind mounts. This happens before the propagation of the host's mounts is cut, because a bidirectional
/// mount must stay in the peer group of its source.
pub(super) fn clone_bind_sources(mounts: &[MountSpec]) -> Result<Vec<Option<DetachedMount>>, LaunchError> {
    let clone = |mount: &MountSpec| match &mount.source {
        MountSource::Bind { path, propagation } => clone_bind_source(path, *propagation).map(Some),
        MountSource::New { .. } | MountSource::Cgroups(_) => Ok(None),
    };
    mounts.iter().map(clone).collect()
}

fn clone_bind_source(path: &Path, propagation: Propagation) -> Result<DetachedMount, LaunchError> {
    let source = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty())
        .during("open bind source", path)?;
    propagation::check_source(source.as_fd(), path, propagation)?;
    let tree = clone_tree(source.as_fd()).during("clone bind source", path)?;
    let kind = kind_of(source.as_fd()).during("read kind of bind source", path)?;
    let value = match propagation {
        Propagation::Private => libc::MS_PRIVATE,
        Propagation::HostToContainer => libc::MS_SLAVE,
        Propagation::Bidirectional => libc::MS_SHARED,
    };
    let attributes = MountAttributes { propagation: value, ..MountAttributes::default() };
    mount_setattr(tree.as_fd(), attributes, true).during("set propagation of", path)?;
    Ok(DetachedMount { tree, kind })
}

/// Makes and attaches one mount.
pub(super) fn make(
    root: BorrowedFd<'_>,
    mount: &MountSpec,
    cloned: Option<DetachedMount>,
) -> Result<(), LaunchError> {
    let path = &mount.destination;
    let detached = match (&mount.source, cloned) {
        (MountSource::New { kind, options }, _) => {
            DetachedMount { tree: new_filesystem(*kind, options, &mount.attributes)?, kind: Kind::Directory }
        }
        (MountSource::Cgroups(_), _) => DetachedMount {
            tree: new_filesystem(FilesystemKind::Tmpfs, &[("mode".into(), "755".into())], &mount.attributes)?,
            kind: Kind::Directory,
        },
        (MountSource::Bind { .. }, Some(cloned)) => cloned,
        (MountSource::Bind { path, propagation }, None) => clone_bind_source(path, *propagation)?,
    };
    let target = destination::open_checked(root, mount, detached.kind)?;
    attach(detached.tree.as_fd(), target.as_fd()).during("mount on", path)?;
    if let MountSource::Cgroups(hierarchies) = &mount.source {
        attach_cgroups(detached.tree.as_fd(), hierarchies, mount)?;
    }
    let attributes = MountAttributes { set: attribute_bits(mount), ..MountAttributes::default() };
    let recursive = mount.access == MountAccess::RecursivelyReadOnly;
    if attributes.set != 0 {
        mount_setattr(detached.tree.as_fd(), attributes, recursive).during("set attributes of", path)?;
    }
    Ok(())
}

/// One directory per hierarchy, with the container's own cgroup only.
fn attach_cgroups(
    folder: BorrowedFd<'_>,
    hierarchies: &[CgroupHierarchy],
    mount: &MountSpec,
) -> Result<(), LaunchError> {
    for hierarchy in hierarchies {
        let cgroup = &hierarchy.directory;
        let source = open_tree(CWD, cgroup, clone_flags()).during("clone cgroup", cgroup)?;
        let attributes = MountAttributes { set: attribute_bits(mount), propagation: libc::MS_PRIVATE };
        mount_setattr(source.as_fd(), attributes, true).during("set attributes of", cgroup)?;
        let name = Path::new("/").join(&hierarchy.name);
        let target = in_root::open_or_create(folder, &name, Kind::Directory)?;
        attach(source.as_fd(), target.as_fd()).during("mount cgroup on", &name)?;
    }
    Ok(())
}

/// A new file system, which is not attached.
pub(super) fn new_filesystem(
    kind: FilesystemKind,
    options: &[(String, String)],
    attributes: &BTreeSet<MountAttribute>,
) -> Result<OwnedFd, LaunchError> {
    let name = match kind {
        FilesystemKind::Proc => "proc",
        FilesystemKind::Sysfs => "sysfs",
        FilesystemKind::Tmpfs => "tmpfs",
        FilesystemKind::Devpts => "devpts",
        FilesystemKind::Mqueue => "mqueue",
    };
    let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC).during("open file system", name)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), key.as_str(), value.as_str()).during("set mount option", key)?;
    }
    fsconfig_create(context.as_fd()).during("create file system", name)?;
    let mut flags = MountAttrFlags::empty();
    for attribute in attributes {
        flags |= match attribute {
            MountAttribute::NoSuid => MountAttrFlags::MOUNT_ATTR_NOSUID,
            MountAttribute::NoDev => MountAttrFlags::MOUNT_ATTR_NODEV,
            MountAttribute::NoExec => MountAttrFlags::MOUNT_ATTR_NOEXEC,
            MountAttribute::StrictAccessTime => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
        };
    }
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags).during("mount file system", name)
}

/// A detached copy of a mount and those below it.
pub(super) fn clone_tree(source: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    open_tree(source, "", clone_flags() | OpenTreeFlags::AT_EMPTY_PATH | OpenTreeFlags::AT_RECURSIVE)
}

/// A detached copy of one mount.
pub(super) fn clone_single(source: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    open_tree(source, "", clone_flags() | OpenTreeFlags::AT_EMPTY_PATH)
}

fn clone_flags() -> OpenTreeFlags {
    OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC
}

pub(super) fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags)
}

/// Makes a mount read-only, and those below it if `recursive`.
pub(super) fn make_read_only(tree: BorrowedFd<'_>, recursive: bool) -> rustix::io::Result<()> {
    mount_setattr(tree, MountAttributes { set: libc::MOUNT_ATTR_RDONLY, propagation: 0 }, recursive)
}

/// A file system that is created again gets strictatime and the like from `fsmount`; what is added here is never removed.
fn attribute_bits(mount: &MountSpec) -> u64 {
    let mut bits = match mount.access {
        MountAccess::ReadWrite => 0,
        MountAccess::ReadOnly | MountAccess::RecursivelyReadOnly => libc::MOUNT_ATTR_RDONLY,
    };
    for attribute in &mount.attributes {
        bits |= match attribute {
            MountAttribute::NoSuid => libc::MOUNT_ATTR_NOSUID,
            MountAttribute::NoDev => libc::MOUNT_ATTR_NODEV,
            MountAttribute::NoExec => libc::MOUNT_ATTR_NOEXEC,
            MountAttribute::StrictAccessTime => 0,
        };
    }
    bits
}

fn kind_of(file: BorrowedFd<'_>) -> Result<Kind, Errno> {
    let status = rustix::fs::fstat(file)?;
    let directory = rustix::fs::FileType::from_raw_mode(status.st_mode).is_dir();
    Ok(if directory { Kind::Directory } else { Kind::File })
}
