//! Device nodes and links in a container's `/dev`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Gid, Mode, OFlags, Uid, makedev, mknodat, symlinkat};
use rustix::io::Errno;

use super::errors::{During, LaunchError};
use super::in_root::{self, Kind};
use super::mounts;
use super::raw::{MountAttributes, mount_setattr};
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

/// A device of the host that is mounted in a user namespace, where nodes cannot be made.
pub(super) struct HostDevice {
    /// Inside the container.
    path: PathBuf,
    tree: OwnedFd,
}

/// Clones all devices of a container in a user namespace.
pub(super) fn clone_from_host(nodes: &DeviceNodes) -> Result<Vec<HostDevice>, LaunchError> {
    let requested = match nodes {
        DeviceNodes::None => return Ok(Vec::new()),
        DeviceNodes::StandardAnd(requested) => requested,
    };
    let mut devices = Vec::new();
    for (name, major, minor) in STANDARD {
        let path = Path::new("/dev").join(name);
        let tree = clone_checked(&path, FileType::CharacterDevice, makedev(*major, *minor))?;
        devices.push(HostDevice { path, tree });
    }
    for node in requested {
        let number = makedev(node.major, node.minor);
        let tree = clone_checked(&node.host_path, file_type(node.kind), number)?;
        devices.push(HostDevice { path: node.path.clone(), tree });
    }
    Ok(devices)
}

fn clone_checked(path: &Path, kind: FileType, number: u64) -> Result<OwnedFd, LaunchError> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).during("open", path)?;
    let status = rustix::fs::fstat(&file).during("read", path)?;
    if FileType::from_raw_mode(status.st_mode) != kind || status.st_rdev != number {
        return Err(LaunchError::Destination {
            path: path.display().to_string(),
            reason: "it is not the requested device",
        });
    }
    let tree = mounts::clone_single(file.as_fd()).during("clone device", path)?;
    let private = MountAttributes { propagation: libc::MS_PRIVATE, ..MountAttributes::default() };
    mount_setattr(tree.as_fd(), private, false).during("set propagation of", path)?;
    Ok(tree)
}

/// Makes nodes and links, or mounts `from_host` in a user namespace. The umask is zero.
pub(super) fn make(
    root: BorrowedFd<'_>,
    nodes: &DeviceNodes,
    from_host: Option<Vec<HostDevice>>,
) -> Result<(), LaunchError> {
    let requested = match nodes {
        DeviceNodes::None => return Ok(()),
        DeviceNodes::StandardAnd(requested) => requested,
    };
    // A symlink here could lead set-up into the image's directories.
    let folder = in_root::open_real_directory(root, Path::new("/dev"))?;
    for (target, name) in LINKS {
        ignore_existing(symlinkat(*target, &folder, *name)).during("make link", name)?;
    }
    if let Some(devices) = from_host {
        return devices.iter().try_for_each(|device| mount_device(root, device));
    }
    for (name, major, minor) in STANDARD {
        let mode = Mode::from_raw_mode(0o666);
        let result = mknodat(&folder, *name, FileType::CharacterDevice, mode, makedev(*major, *minor));
        ignore_existing(result).during("make device", name)?;
    }
    requested.iter().try_for_each(|node| make_requested(root, node))
}

fn mount_device(root: BorrowedFd<'_>, device: &HostDevice) -> Result<(), LaunchError> {
    let target = in_root::open_or_create(root, &device.path, Kind::File)?;
    mounts::attach(device.tree.as_fd(), target.as_fd()).during("mount device on", &device.path)
}

fn file_type(kind: DeviceKind) -> FileType {
    match kind {
        DeviceKind::Character => FileType::CharacterDevice,
        DeviceKind::Block => FileType::BlockDevice,
    }
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
    let mode = Mode::from_raw_mode(node.mode & 0o7777);
    match mknodat(&parent, name, file_type(node.kind), mode, makedev(node.major, node.minor)) {
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
