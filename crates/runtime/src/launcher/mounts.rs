//! Mounts of a container. Every mount is made detached, gets its attributes, and is then attached to a descriptor of its
//! destination, so that no path is resolved twice.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::destination;
use super::errors::{During, LaunchError};
use super::in_root::{self, Kind};
use super::raw::{MountAttributes, mount_setattr};
use super::sources::{DetachedMount, Source};
use super::spec::{FilesystemKind, MountAccess, MountAttribute, MountSource, MountSpec};

/// Makes and attaches one mount. `source` is what was taken from the host for it.
pub(super) fn make(root: BorrowedFd<'_>, mount: &MountSpec, source: Source) -> Result<(), LaunchError> {
    let path = &mount.destination;
    let new_directory = |kind, options: &[(String, String)]| -> Result<DetachedMount, LaunchError> {
        let tree = new_filesystem(kind, options, &mount.attributes)?;
        Ok(DetachedMount { tree, kind: Kind::Directory })
    };
    let mut recursive = mount.access == MountAccess::RecursivelyReadOnly;
    let mut set = attribute_bits(mount);
    let (detached, cgroups) = match (&mount.source, source) {
        (_, Source::Tree(tree)) => (tree, Vec::new()),
        (_, Source::HostSysfs(tree)) => {
            // It shows the host's devices, so nothing of it may be writable.
            recursive = true;
            set |= libc::MOUNT_ATTR_RDONLY;
            (tree, Vec::new())
        }
        (MountSource::New { kind, options }, _) => (new_directory(*kind, options)?, Vec::new()),
        (_, Source::Cgroups(cgroups)) => {
            (new_directory(FilesystemKind::Tmpfs, &[("mode".into(), "755".into())])?, cgroups)
        }
        (MountSource::Bind { .. } | MountSource::Cgroups(_), Source::None) => {
            return Err(LaunchError::Message(format!("the source of {} is missing", path.display())));
        }
    };
    let target = destination::open_checked(root, mount, detached.kind)?;
    attach(detached.tree.as_fd(), target.as_fd()).during("mount on", path)?;
    for (name, cgroup) in cgroups {
        attach_cgroup(detached.tree.as_fd(), &name, cgroup.as_fd(), mount)?;
    }
    if set != 0 {
        let attributes = MountAttributes { set, ..MountAttributes::default() };
        mount_setattr(detached.tree.as_fd(), attributes, recursive).during("set attributes of", path)?;
    }
    Ok(())
}

/// One directory per hierarchy, with the container's own cgroup only.
fn attach_cgroup(
    folder: BorrowedFd<'_>,
    name: &str,
    cgroup: BorrowedFd<'_>,
    mount: &MountSpec,
) -> Result<(), LaunchError> {
    let attributes = MountAttributes {
        set: attribute_bits(mount),
        propagation: libc::MS_PRIVATE,
        ..MountAttributes::default()
    };
    mount_setattr(cgroup, attributes, true).during("set attributes of cgroup", name)?;
    let name = Path::new("/").join(name);
    let target = in_root::open_or_create(folder, &name, Kind::Directory)?;
    attach(cgroup, target.as_fd()).during("mount cgroup on", &name)
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

pub(super) fn clone_flags() -> OpenTreeFlags {
    OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC
}

pub(super) fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags)
}

/// Makes a mount read-only, and those below it if `recursive`.
pub(super) fn make_read_only(tree: BorrowedFd<'_>, recursive: bool) -> rustix::io::Result<()> {
    let attributes = MountAttributes { set: libc::MOUNT_ATTR_RDONLY, ..MountAttributes::default() };
    mount_setattr(tree, attributes, recursive)
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
