//! Giving the files of a volume to a pod's group.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use model::{FsGroup, FsGroupChange};
use ports::pod_folders::FileError;
use ports::pod_volumes::Progress;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::failure::{OnPath, refused};
use crate::folder::{Folder, kind, open_same_mount};

const SET_GROUP: u32 = 0o2000;
const ENTER: u32 = 0o110;
/// A container may nest folders deeper than we have descriptors for.
const DEEPEST: usize = 512;

/// What the group may do with the files.
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

/// Gives the folder and everything below it to the group. Symlinks are not followed, other mounts are left out.
/// A file that cannot be changed (read-only, or of a file system without owners) stays as it is.
pub(crate) fn give_to_group(
    folder: &Folder,
    group: FsGroup,
    access: Access,
    progress: &Progress,
) -> Result<(), FileError> {
    if group.change == FsGroupChange::OnRootMismatch && fits(folder, group.gid, access)? {
        return Ok(());
    }
    let change = Change { gid: group.gid, access, progress };
    change.folder(folder.as_fd(), 0).on_path("give to the pod's group all files of", folder.path())
}

fn fits(folder: &Folder, gid: u32, access: Access) -> Result<bool, FileError> {
    let stat = rustix::fs::fstat(folder).on_path("look at", folder.path())?;
    let wanted = access.bits() | ENTER | SET_GROUP;
    Ok(stat.st_gid == gid && stat.st_mode & wanted == wanted)
}

struct Change<'a> {
    gid: u32,
    access: Access,
    progress: &'a Progress,
}

impl Change<'_> {
    /// The folder comes after its content, so that a top folder that fits stands for content that fits.
    fn folder(&self, folder: BorrowedFd<'_>, depth: usize) -> std::io::Result<()> {
        if depth > DEEPEST {
            return Err(refused("folders are nested too deep"));
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
        if kind(&stat) != FileType::Directory {
            self.apply(file.as_fd(), &stat);
            return Ok(());
        }
        match open_same_mount(parent, name) {
            Ok(folder) => self.folder(folder.as_fd(), depth + 1),
            // Another mount, or no longer a folder.
            Err(Errno::XDEV | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn apply(&self, file: BorrowedFd<'_>, stat: &Stat) {
        self.progress.count_file();
        let _ = rustix::fs::chownat(file, "", None, Some(Gid::from_raw(self.gid)), AtFlags::EMPTY_PATH);
        let extra = match kind(stat) {
            FileType::Symlink => return,
            FileType::Directory => ENTER | SET_GROUP,
            _ => 0,
        };
        let mode = Mode::from_raw_mode((stat.st_mode & 0o7777) | self.access.bits() | extra);
        // A descriptor that only names the file cannot be changed itself, its magic path can.
        let _ = rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode);
    }
}
