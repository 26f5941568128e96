//! Removal of a tree with few open descriptors, however deep the tree is.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes an entry of `parent` with everything below it. A missing entry is no error. No link is followed.
///
/// The tree must not be changed by other processes at the same time.
pub(crate) fn remove_tree(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(Errno::NOENT) => return Ok(()),
        result => return result,
    }
    let mut folder = rustix::fs::openat(parent, name, FOLDER, Mode::empty())?;
    let mut depth: Vec<CString> = Vec::new();
    loop {
        if let Some(below) = empty_until_folder(&folder)? {
            folder = rustix::fs::openat(&folder, &below, FOLDER, Mode::empty())?;
            depth.push(below);
            continue;
        }
        let Some(emptied) = depth.pop() else { break };
        folder = rustix::fs::openat(&folder, "..", FOLDER, Mode::empty())?;
        rustix::fs::unlinkat(&folder, emptied, AtFlags::REMOVEDIR)?;
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Removes entries until one is a folder that is not empty, and returns that one.
fn empty_until_folder(folder: &OwnedFd) -> Result<Option<CString>, Errno> {
    for entry in Dir::read_from(folder.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => match rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
                Ok(()) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(Some(name.to_owned())),
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
