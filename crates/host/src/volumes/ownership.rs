//! Sets the group of a volume's files (`fsGroup`).

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use model::{FsGroup, FsGroupChange};
use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::Progress;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::errors::{OnPath, invalid_input};
use crate::files::folder::{Folder, file_type, open_same_mount};

const SET_GID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o110;
/// A container may nest folders deeper than the agent has descriptors for.
const MAX_DEPTH: usize = 512;

/// Access of the group to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

impl Access {
    fn bits(self) -> u32 {
        match self {
            Self::Read => 0o440,
            Self::ReadWrite => 0o660,
        }
    }
}

/// Sets the group of a folder and everything below it. Does not follow symlinks and skips other mounts. Skips files
/// that cannot be changed (read-only, or on a file system without owners).
pub(crate) fn set_group(
    folder: &Folder,
    group: FsGroup,
    access: Access,
    progress: &Progress,
) -> Result<(), FileError> {
    if group.change == FsGroupChange::OnRootMismatch && has_group(folder, group.gid, access)? {
        return Ok(());
    }
    let change = GroupChange { gid: group.gid, access, progress };
    change.folder(folder.as_fd(), 0).on_path("set group of all files of", folder.path())
}

fn has_group(folder: &Folder, gid: u32, access: Access) -> Result<bool, FileError> {
    let stat = rustix::fs::fstat(folder).on_path("stat", folder.path())?;
    let required = access.bits() | GROUP_EXECUTE | SET_GID;
    Ok(stat.st_gid == gid && stat.st_mode & required == required)
}

struct GroupChange<'a> {
    gid: u32,
    access: Access,
    progress: &'a Progress,
}

impl GroupChange<'_> {
    /// Changes the folder after its content, so that a top folder with the group implies content with the group.
    fn folder(&self, folder: BorrowedFd<'_>, depth: usize) -> std::io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(invalid_input("folders are nested too deeply"));
        }
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                self.entry(folder, name, depth)?;
            }
        }
        self.apply(folder, &rustix::fs::fstat(folder)?);
        Ok(())
    }

    fn entry(&self, parent: BorrowedFd<'_>, name: &OsStr, depth: usize) -> std::io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: OwnedFd = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let stat = rustix::fs::fstat(&file)?;
        if file_type(&stat) != FileType::Directory {
            self.apply(file.as_fd(), &stat);
            return Ok(());
        }
        match open_same_mount(parent, name) {
            Ok(folder) => self.folder(folder.as_fd(), depth + 1),
            // Another mount, or not a folder any more.
            Err(Errno::XDEV | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn apply(&self, file: BorrowedFd<'_>, stat: &Stat) {
        self.progress.count_file();
        let _ = rustix::fs::chownat(file, "", None, Some(Gid::from_raw(self.gid)), AtFlags::EMPTY_PATH);
        let extra = match file_type(stat) {
            FileType::Symlink => return,
            FileType::Directory => GROUP_EXECUTE | SET_GID,
            _ => 0,
        };
        let mode = Mode::from_raw_mode((stat.st_mode & 0o7777) | self.access.bits() | extra);
        // fchmod does not work on an O_PATH descriptor, but chmod on its magic link does.
        let _ = rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode);
    }
}
