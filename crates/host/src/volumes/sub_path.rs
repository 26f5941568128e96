//! Subpaths of volumes, bind-mounted to a folder that no container can change.
//!
//! A container can replace any name in a volume with a symlink at any time. So the subpath is resolved once, below the
//! volume's descriptor, and the resulting descriptor is mounted, never a path.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use model::SubPath;
use ports::host::pod_folders::FileError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::journal::Journal;
use super::tear_down::unmount;
use crate::errors::{OnPath, entry_name, invalid_input};
use crate::files::folder::{Folder, file_type, resolve_beneath};
use crate::pods::pod_folders::PRIVATE_MODE;

const SUB_PATHS: &str = "volume-subpaths";
const MOUNT_POINT_FILE_MODE: u32 = 0o640;
/// Refers to the file without opening it, which has no side effects on a device or FIFO.
const REFERENCE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Bind-mounts a subpath for one container and returns the mount point. Creates a missing subpath as a folder with the
/// mode of the volume.
pub(super) fn bind(pod: &Folder, sub_path: &SubPath) -> Result<PathBuf, FileError> {
    let full_path = sub_path.volume_path.join(&sub_path.path);
    let Some(volume) = Folder::open(&sub_path.volume_path)? else {
        return Err(Errno::NOENT).on_path("open volume", &sub_path.volume_path);
    };
    let source = resolve(&volume, &sub_path.path).on_path("resolve", &full_path)?;
    let stat = rustix::fs::fstat(&source).on_path("stat", &full_path)?;

    let index = sub_path.index.to_string();
    let relative =
        Path::new(SUB_PATHS).join(entry_name(&sub_path.volume)?).join(entry_name(&sub_path.container)?);
    let parent = pod.make_below(&relative, PRIVATE_MODE)?;
    let name = OsStr::new(&index);
    let target = parent.path().join(name);
    if parent.stat(name)?.is_some() && parent.is_mount_point(name)? {
        if parent.stat(name)?.is_some_and(|mounted| same_file(&mounted, &stat)) {
            return Ok(target);
        }
        unmount(pod, &relative.join(name))?;
    }
    make_target(&parent, name, file_type(&stat)).on_path("make mount point", &target)?;
    Journal::of(pod).record(&relative.join(name), "bind")?;
    let from = format!("/proc/self/fd/{}", source.as_raw_fd());
    rustix::mount::mount_bind(from, parent.magic_path().join(name)).on_path("bind to", &target)?;
    Ok(target)
}

/// Resolves the path below the volume. Follows symlinks that stay inside the volume.
fn resolve(volume: &Folder, path: &Path) -> std::io::Result<OwnedFd> {
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_plain {
        return Err(invalid_input("not a plain path below its volume"));
    }
    let path: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    if path.as_os_str().is_empty() {
        return Ok(resolve_beneath(volume, Path::new("."), REFERENCE)?);
    }
    match resolve_beneath(volume, &path, REFERENCE) {
        Err(Errno::NOENT) => make_folders(volume, &path),
        result => Ok(result?),
    }
}

/// Creates missing folders of the path with the volume's mode.
fn make_folders(volume: &Folder, path: &Path) -> std::io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(volume)?.st_mode & 0o7777);
    let folder = REFERENCE | OFlags::DIRECTORY;
    let mut current = resolve_beneath(volume, Path::new("."), folder)?;
    let mut reached = PathBuf::new();
    for name in path {
        reached.push(name);
        current = match resolve_beneath(volume, &reached, folder) {
            Err(Errno::NOENT) => make_folder(&current, name, mode)?,
            result => result?,
        };
    }
    Ok(current)
}

fn make_folder(parent: &OwnedFd, name: &OsStr, mode: Mode) -> std::io::Result<OwnedFd> {
    let made = match rustix::fs::mkdirat(parent, name, mode) {
        Ok(()) => true,
        // Another container was faster, or it is a dangling symlink, which the next step rejects.
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    if made {
        // Regardless of the umask.
        rustix::fs::fchmod(&folder, mode)?;
    }
    Ok(folder)
}

/// Creates the mount point: an empty folder for a folder, an empty file for anything else.
fn make_target(parent: &Folder, name: &OsStr, source: FileType) -> std::io::Result<()> {
    let is_folder = source == FileType::Directory;
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if (file_type(&found) == FileType::Directory) == is_folder => return Ok(()),
        Ok(found) => {
            let flags =
                if file_type(&found) == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            rustix::fs::unlinkat(parent, name, flags)?;
        }
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    if is_folder {
        return Ok(rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(PRIVATE_MODE))?);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::openat(parent.as_fd(), name, flags, Mode::from_raw_mode(MOUNT_POINT_FILE_MODE))?;
    Ok(())
}

fn same_file(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

#[cfg(test)]
mod tests;
