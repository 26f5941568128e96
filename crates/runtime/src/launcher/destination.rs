//! Checks of mount destinations: a mount over parts of `/proc` or `/sys` could defeat masks, or redirect the runtime's own writes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::fstatfs;

use super::errors::{During, LaunchError};
use super::in_root::{self, Kind};
use super::spec::{FilesystemKind, MountSource, MountSpec};

const PROC_SUPER_MAGIC: u64 = 0x9fa0;
const SYSFS_MAGIC: u64 = 0x6265_6572;

/// Files below `/proc` that programs like lxcfs replace.
const REPLACEABLE_PROC_FILES: &[&str] = &[
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/slabinfo",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/crypto/fips_enabled",
];

/// Opens the destination of a mount, or refuses it.
pub(super) fn open_checked(
    root: BorrowedFd<'_>,
    mount: &MountSpec,
    kind: Kind,
) -> Result<OwnedFd, LaunchError> {
    let path = mount.destination.as_path();
    let refused = |reason| Err(LaunchError::Destination { path: path.display().to_string(), reason });
    if path == Path::new("/") {
        return refused("a container's root is not a mount destination");
    }
    let kernel_filesystem = match &mount.source {
        MountSource::New { kind: FilesystemKind::Proc | FilesystemKind::Sysfs, .. } => true,
        MountSource::New {
            kind: FilesystemKind::Tmpfs | FilesystemKind::Devpts | FilesystemKind::Mqueue,
            ..
        }
        | MountSource::Bind { .. }
        | MountSource::Cgroups(_) => false,
    };
    if !kernel_filesystem && path == Path::new("/proc") {
        return refused("only a proc file system may be there");
    }
    let target = in_root::open_or_create(root, path, kind)?;
    if kernel_filesystem {
        // A symlink in the image must not move /proc or /sys to another place.
        return in_root::open_real_directory(root, path);
    }
    let magic = fstatfs(target.as_fd()).during("read file system of", path)?.f_type;
    let allowed = REPLACEABLE_PROC_FILES.iter().any(|file| path == Path::new(file));
    if u64::try_from(magic).ok() == Some(PROC_SUPER_MAGIC) && !allowed {
        return refused("it is inside /proc");
    }
    if u64::try_from(magic).ok() == Some(SYSFS_MAGIC) && !path.starts_with("/sys") {
        return refused("it leads into /sys");
    }
    Ok(target)
}
