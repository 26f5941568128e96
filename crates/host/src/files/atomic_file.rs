//! Replaces a file atomically.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use ports::host::pod_folders::FileError;
use rustix::fs::{AtFlags, FileType, Mode};

use crate::errors::{OnPath, invalid_input};
use crate::files::folder::{Folder, file_type};

/// Writes a file with content and mode. A file that already has the content keeps its inode, so that bind mounts
/// of it stay current. Fails if the name is anything but a regular file.
pub(crate) fn write(folder: &Folder, name: &OsStr, content: &[u8], mode: u32) -> Result<(), FileError> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    if has_content(folder, name, content, mode)? {
        return Ok(());
    }
    // Two writers of one file never share a temporary file. One left by a crash is removed with the pod folder.
    let number = WRITES.fetch_add(1, Ordering::Relaxed);
    let mut temporary = OsString::from(format!(".{}-{number}.", std::process::id()));
    temporary.push(name);
    replace_through(&temporary, folder, name, content, mode, Durability::Ordered)
}

/// What a replaced file survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A crash of the agent. After a crash of the machine it depends on the file system.
    Ordered,
    /// A crash of the machine: content and name are flushed to disk first.
    Flushed,
}

/// Replaces a file that has one writer, through the temporary file `.<name>.new`.
pub(crate) fn replace(
    folder: &Folder,
    name: &OsStr,
    content: &[u8],
    mode: u32,
    durability: Durability,
) -> Result<(), FileError> {
    let temporary: OsString = [OsStr::new("."), name, OsStr::new(".new")].into_iter().collect();
    replace_through(&temporary, folder, name, content, mode, durability)
}

/// Writes a temporary file and renames it. A leftover temporary file is removed first.
fn replace_through(
    temporary: &OsStr,
    folder: &Folder,
    name: &OsStr,
    content: &[u8],
    mode: u32,
    durability: Durability,
) -> Result<(), FileError> {
    let path = folder.path().join(name);
    let result = write_temporary(folder, temporary, content, mode, durability)
        .and_then(|()| rustix::fs::renameat(folder, temporary, folder, name).map_err(io::Error::from));
    if result.is_err() {
        let _ = rustix::fs::unlinkat(folder, temporary, AtFlags::empty());
    }
    result.on_path("write file", path)?;
    match durability {
        Durability::Ordered => Ok(()),
        Durability::Flushed => rustix::fs::fsync(folder).on_path("flush folder", folder.path()),
    }
}

fn write_temporary(
    folder: &Folder,
    temporary: &OsStr,
    content: &[u8],
    mode: u32,
    durability: Durability,
) -> io::Result<()> {
    let mut file = folder.create_file(temporary)?;
    file.write_all(content)?;
    rustix::fs::fchmod(file.as_fd(), Mode::from_raw_mode(mode))?;
    match durability {
        Durability::Ordered => Ok(()),
        Durability::Flushed => file.sync_all(),
    }
}

/// Whether the file exists with that content. Corrects its mode in place.
fn has_content(folder: &Folder, name: &OsStr, content: &[u8], mode: u32) -> Result<bool, FileError> {
    let path = folder.path().join(name);
    let Some(descriptor) = folder.open_file(name)? else { return Ok(false) };
    let stat = rustix::fs::fstat(&descriptor).on_path("stat", &path)?;
    if file_type(&stat) != FileType::RegularFile {
        return Err(invalid_input("not a regular file")).on_path("write file", path);
    }
    let mut present = Vec::new();
    let limit = content.len() as u64 + 1;
    File::from(descriptor.try_clone().on_path("read file", &path)?)
        .take(limit)
        .read_to_end(&mut present)
        .on_path("read file", &path)?;
    if present != content {
        return Ok(false);
    }
    if stat.st_mode & 0o7777 != mode {
        rustix::fs::fchmod(&descriptor, Mode::from_raw_mode(mode)).on_path("set mode of", path)?;
    }
    Ok(true)
}
