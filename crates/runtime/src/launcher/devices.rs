//! Device nodes and links in a container's `/dev`.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{FileType, Gid, Mode, OFlags, Uid, makedev, mknodat, symlinkat};
use rustix::io::Errno;

use super::errors::{During, LaunchError};
use super::in_root::{self, Kind};
use super::spec::{DeviceKind, DeviceNode, DeviceNodes};

/// Character devices that every container has, with major and minor number.
const STANDARD: &[(&str, u32, u32)] =
    &[("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

/// Makes nodes and links. The umask is zero.
pub(super) fn make(root: BorrowedFd<'_>, nodes: &DeviceNodes) -> Result<(), LaunchError> {
    let requested = match nodes {
        DeviceNodes::None => return Ok(()),
        DeviceNodes::StandardAnd(requested) => requested,
    };
    // A symlink here could lead set-up into the image's directories.
    let folder = in_root::open_real_directory(root, Path::new("/dev"))?;
    for (name, major, minor) in STANDARD {
        let mode = Mode::from_raw_mode(0o666);
        let result = mknodat(&folder, *name, FileType::CharacterDevice, mode, makedev(*major, *minor));
        ignore_existing(result).during("make device", name)?;
    }
    for (target, name) in LINKS {
        ignore_existing(symlinkat(*target, &folder, *name)).during("make link", name)?;
    }
    requested.iter().try_for_each(|node| make_requested(root, node))
}

fn make_requested(root: BorrowedFd<'_>, node: &DeviceNode) -> Result<(), LaunchError> {
    let path = &node.path;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(LaunchError::Destination {
            path: path.display().to_string(),
            reason: "it is not the path of a device",
        });
    };
    let parent = in_root::open_or_create(root, parent, Kind::Directory)?;
    let kind = match node.kind {
        DeviceKind::Character => FileType::CharacterDevice,
        DeviceKind::Block => FileType::BlockDevice,
    };
    let mode = Mode::from_raw_mode(node.mode & 0o7777);
    match mknodat(&parent, name, kind, mode, makedev(node.major, node.minor)) {
        Err(Errno::EXIST) => return Ok(()),
        result => result.during("make device", path)?,
    }
    let owner = (Some(Uid::from_raw(node.uid)), Some(Gid::from_raw(node.gid)));
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(&parent, name, owner.0, owner.1, flags).during("set owner of device", path)
}

/// The container's `/dev/null`, checked to be that device: an image may have replaced it.
pub(super) fn open_null(root: BorrowedFd<'_>) -> Result<rustix::fd::OwnedFd, LaunchError> {
    let path = Path::new("/dev/null");
    let null = in_root::open(root, path, OFlags::PATH | OFlags::NOFOLLOW).during("open", path)?;
    let status = rustix::fs::fstat(null.as_fd()).during("read", path)?;
    let is_device = FileType::from_raw_mode(status.st_mode).is_char_device();
    if is_device && status.st_rdev == makedev(1, 3) {
        return Ok(null);
    }
    Err(LaunchError::Destination { path: path.display().to_string(), reason: "it is not the null device" })
}

fn ignore_existing(result: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match result {
        Err(Errno::EXIST) => Ok(()),
        result => result,
    }
}
