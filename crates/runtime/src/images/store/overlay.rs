//! Mounts of overlayfs.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount, mount_bind, mount_remount, move_mount,
};

use super::disk::{OnPath, StoreError};

/// The kernel reads one page of options.
const MAX_OPTIONS: usize = 4095;
const SOURCE: &str = "overlay";

/// Mounts `lower` (the top layer first) with the writable layer `upper`. An image without layers is `upper` alone.
pub(super) fn mount_writable(
    lower: &[PathBuf],
    upper: &Path,
    work: &Path,
    target: &Path,
) -> Result<(), StoreError> {
    if lower.is_empty() {
        return mount_bind(upper, target).at(target, "bind mount");
    }
    mount_overlay(lower, Some((upper, work)), target)
}

/// Mounts `lower` read-only, above the empty folder `empty`.
pub(super) fn mount_read_only(lower: &[PathBuf], empty: &Path, target: &Path) -> Result<(), StoreError> {
    match lower {
        [] => bind_read_only(empty, target),
        [layer] => bind_read_only(layer, target),
        layers => mount_overlay(layers, None, target),
    }
}

/// Detaches what is mounted at `target`, however often.
pub(super) fn detach(target: &Path) -> Result<(), StoreError> {
    while is_mounted(target)? {
        unmount_once(target).at(target, "unmount")?;
    }
    Ok(())
}

fn unmount_once(target: &Path) -> Result<(), Errno> {
    rustix::mount::unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
}

pub(super) fn is_mounted(path: &Path) -> Result<bool, StoreError> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::statx(CWD, path, flags, StatxFlags::empty()) {
        Err(Errno::NOENT) => Ok(false),
        stat => Ok(stat.on_path("stat", path)?.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
    }
}

fn bind_read_only(source: &Path, target: &Path) -> Result<(), StoreError> {
    mount_bind(source, target).at(target, "bind mount")?;
    let read_only = MountFlags::BIND | MountFlags::RDONLY;
    mount_remount(target, read_only, "").at(target, "make read-only").inspect_err(|_| {
        let _ = unmount_once(target);
    })
}

fn mount_overlay(
    lower: &[PathBuf],
    writable: Option<(&Path, &Path)>,
    target: &Path,
) -> Result<(), StoreError> {
    match mount_by_parts(lower, writable, target) {
        // Kernels before 6.8 do not know `lowerdir+`.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            mount_by_options(lower, writable, target)
        }
        result => result.at(target, "mount overlay"),
    }
}

/// Passes each layer in a separate call, so that the length of all paths is not limited.
fn mount_by_parts(lower: &[PathBuf], writable: Option<(&Path, &Path)>, target: &Path) -> io::Result<()> {
    let context: OwnedFd = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "source", SOURCE)?;
    for layer in lower {
        fsconfig_set_string(context.as_fd(), "lowerdir+", layer.as_path())?;
    }
    if let Some((upper, work)) = writable {
        fsconfig_set_string(context.as_fd(), "upperdir", upper)?;
        fsconfig_set_string(context.as_fd(), "workdir", work)?;
        if has_index() {
            fsconfig_set_string(context.as_fd(), "index", "off")?;
        }
    }
    fsconfig_create(context.as_fd())?;
    let attributes =
        if writable.is_some() { MountAttrFlags::empty() } else { MountAttrFlags::MOUNT_ATTR_RDONLY };
    let mounted = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    move_mount(mounted.as_fd(), "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}

fn mount_by_options(
    lower: &[PathBuf],
    writable: Option<(&Path, &Path)>,
    target: &Path,
) -> Result<(), StoreError> {
    let mut options = b"lowerdir=".to_vec();
    for (number, layer) in lower.iter().enumerate() {
        if number > 0 {
            options.push(b':');
        }
        escape(layer, &mut options);
    }
    if let Some((upper, work)) = writable {
        for (name, path) in [("upperdir", upper), ("workdir", work)] {
            options.extend(format!(",{name}=").as_bytes());
            escape(path, &mut options);
        }
        if has_index() {
            options.extend(b",index=off");
        }
    }
    if options.len() > MAX_OPTIONS {
        let error = io::Error::other("the image has more layers than this kernel can mount");
        return Err(error).at(target, "mount overlay");
    }
    let options = CString::new(options).map_err(io::Error::from).at(target, "mount overlay")?;
    let flags = if writable.is_some() { MountFlags::empty() } else { MountFlags::RDONLY };
    mount(SOURCE, target, "overlay", flags, options.as_c_str()).at(target, "mount overlay")
}

/// Colons separate layers and commas separate options.
fn escape(path: &Path, to: &mut Vec<u8>) {
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b':' | b',' | b'\\') {
            to.push(b'\\');
        }
        to.push(*byte);
    }
}

/// With an index, overlayfs refuses layers that were copied to another disk.
fn has_index() -> bool {
    Path::new("/sys/module/overlay/parameters/index").exists()
}

trait AtMount<T> {
    fn at(self, path: &Path, step: &'static str) -> Result<T, StoreError>;
}

impl<T, E: Into<io::Error>> AtMount<T> for Result<T, E> {
    fn at(self, path: &Path, step: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Mount { path: path.to_path_buf(), step, source: source.into() })
    }
}
