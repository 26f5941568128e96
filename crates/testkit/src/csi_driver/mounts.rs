//! The driver's mounts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

/// Bind-mounts a folder or a file unless it is already mounted.
pub(super) fn bind(source: &Path, target: &Path) -> io::Result<()> {
    if source.is_dir() {
        fs::create_dir_all(target)?;
    } else if !target.exists() {
        fs::write(target, "")?;
    }
    if is_mounted(target)? {
        return Ok(());
    }
    Ok(rustix::mount::mount_bind(source, target)?)
}

/// Remounts a bind mount read-only.
pub(super) fn protect(target: &Path) -> io::Result<()> {
    let flags = rustix::mount::MountFlags::BIND | rustix::mount::MountFlags::RDONLY;
    Ok(rustix::mount::mount_remount(target, flags, c"")?)
}

/// Unmounts `target` if it is a mount point.
pub(super) fn unbind(target: &Path) -> io::Result<()> {
    while is_mounted(target)? {
        rustix::mount::unmount(target, UnmountFlags::NOFOLLOW)?;
    }
    Ok(())
}

/// Removes an empty mount point.
pub(super) fn remove(target: &Path) -> io::Result<()> {
    let removed = if target.is_dir() { fs::remove_dir(target) } else { fs::remove_file(target) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Cleanup after a failed test.
pub(super) fn detach_below(folder: &Path) {
    for point in points().unwrap_or_default().into_iter().rev().filter(|point| point.starts_with(folder)) {
        let _ = rustix::mount::unmount(point, UnmountFlags::DETACH);
    }
}

/// The machine's mount points in mount order.
pub(super) fn points() -> io::Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect())
}

fn is_mounted(target: &Path) -> io::Result<bool> {
    let real = match fs::canonicalize(target) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok(points()?.contains(&real))
}
