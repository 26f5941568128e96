//! Parts of volumes, bound to a place that no container can change.
//!
//! Containers own what lies in a volume and may swap any name for a symlink at any time. So the part is resolved once,
//! below the volume's descriptor, and what is mounted is the descriptor that came out of it, never a path.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use model::SubPath;
use ports::pod_folders::FileError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::journal::Journal;
use super::tear_down::unmount;
use crate::failure::{OnPath, entry_name, refused};
use crate::folder::{Folder, kind, resolve_beneath};
use crate::pod_folders::PRIVATE;

const SUB_PATHS: &str = "volume-subpaths";
const MOUNTED_FILE: u32 = 0o640;
/// Names the file without opening it: a device or a pipe does nothing on that.
const NAMED: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Binds a part of a volume for one container and says where. A part that is missing is made as a folder with the
/// mode of the volume.
pub(super) fn bind(pod: &Folder, part: &SubPath) -> Result<PathBuf, FileError> {
    let wanted = part.volume_path.join(&part.path);
    let Some(volume) = Folder::open(&part.volume_path)? else {
        return Err(Errno::NOENT).on_path("open volume", &part.volume_path);
    };
    let source = resolve(&volume, &part.path).on_path("resolve", &wanted)?;
    let stat = rustix::fs::fstat(&source).on_path("look at", &wanted)?;

    let index = part.index.to_string();
    let relative = Path::new(SUB_PATHS).join(entry_name(&part.volume)?).join(entry_name(&part.container)?);
    let parent = pod.make_below(&relative, PRIVATE)?;
    let name = OsStr::new(&index);
    let target = parent.path().join(name);
    if parent.stat(name)?.is_some() && parent.is_mount_point(name)? {
        if parent.stat(name)?.is_some_and(|mounted| same_file(&mounted, &stat)) {
            return Ok(target);
        }
        unmount(pod, &relative.join(name))?;
    }
    make_target(&parent, name, kind(&stat)).on_path("make mount point", &target)?;
    Journal::of(pod).note(&relative.join(name), "bind")?;
    let from = format!("/proc/self/fd/{}", source.as_raw_fd());
    rustix::mount::mount_bind(from, parent.magic_path().join(name)).on_path("bind to", &target)?;
    Ok(target)
}

/// What the path leads to below the volume. Symlinks may lead around inside, not out.
fn resolve(volume: &Folder, path: &Path) -> std::io::Result<OwnedFd> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain {
        return Err(refused("not a plain path below its volume"));
    }
    let path: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    if path.as_os_str().is_empty() {
        return Ok(resolve_beneath(volume, Path::new("."), NAMED)?);
    }
    match resolve_beneath(volume, &path, NAMED) {
        Err(Errno::NOENT) => make(volume, &path),
        result => Ok(result?),
    }
}

/// Makes the folders that are missing on the way, each with the volume's mode.
fn make(volume: &Folder, path: &Path) -> std::io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(volume)?.st_mode & 0o7777);
    let folder = NAMED | OFlags::DIRECTORY;
    let mut at = resolve_beneath(volume, Path::new("."), folder)?;
    let mut reached = PathBuf::new();
    for name in path {
        reached.push(name);
        at = match resolve_beneath(volume, &reached, folder) {
            Err(Errno::NOENT) => make_folder(&at, name, mode)?,
            result => result?,
        };
    }
    Ok(at)
}

fn make_folder(parent: &OwnedFd, name: &OsStr, mode: Mode) -> std::io::Result<OwnedFd> {
    let made = match rustix::fs::mkdirat(parent, name, mode) {
        Ok(()) => true,
        // Another container was faster, or it is a symlink to nowhere, which the next step refuses.
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    if made {
        // Whatever the umask.
        rustix::fs::fchmod(&folder, mode)?;
    }
    Ok(folder)
}

/// Makes what a mount needs to lie on: an empty folder for a folder, an empty file for anything else.
fn make_target(parent: &Folder, name: &OsStr, source: FileType) -> std::io::Result<()> {
    let is_folder = source == FileType::Directory;
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if (kind(&found) == FileType::Directory) == is_folder => return Ok(()),
        Ok(found) => {
            let flags =
                if kind(&found) == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            rustix::fs::unlinkat(parent, name, flags)?;
        }
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    if is_folder {
        return Ok(rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(PRIVATE))?);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::openat(parent.as_fd(), name, flags, Mode::from_raw_mode(MOUNTED_FILE))?;
    Ok(())
}

fn same_file(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

#[cfg(test)]
mod tests;
