//! Volumes of files that the agent writes and replaces atomically.
//!
//! The files lie in a timestamped folder, `..data` is a symlink to it, and each visible name is a symlink through
//! `..data`. Renaming a new symlink over `..data` replaces all files at once. The next write completes or removes what
//! a killed agent left behind.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use model::{ProjectedFile, Timestamp};
use ports::host::pod_folders::FileError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::errors::{IfExists, OnPath, invalid_input};
use crate::files::folder::{Folder, file_type};
use crate::files::tree;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";
const FOLDER_MODE: u32 = 0o755;
const MAX_NAME_BYTES: usize = 255;
const MAX_PATH_BYTES: usize = 4096;

/// Makes `files` the content of the volume. `before_swap` runs after new files are written and before they are
/// visible.
pub(super) fn write(
    volume: &Folder,
    files: &[ProjectedFile],
    now: Timestamp,
    before_swap: impl FnOnce() -> Result<(), FileError>,
) -> Result<(), FileError> {
    for file in files {
        check_path(&file.path).on_path("project file", volume.path().join(&file.path))?;
    }
    let current = current(volume)?;
    let folder = current.as_ref().map_or(Ok(None), |name| volume.existing(name))?;
    let unchanged = folder.map_or(Ok(false), |folder| has_exactly(&folder, files))?;
    let current = match current {
        Some(name) if unchanged => name,
        Some(_) | None => {
            let name = new_folder(volume, now)?;
            let folder = volume.make_below(&name, FOLDER_MODE)?;
            for file in files {
                write_file(&folder, file)?;
            }
            before_swap()?;
            swap(volume, &name)?;
            name
        }
    };
    link_visible(volume, files)?;
    remove_stale(volume, files, &current)
}

/// The target of `..data`.
fn current(volume: &Folder) -> Result<Option<OsString>, FileError> {
    let target = volume.link_target(OsStr::new(DATA)).if_exists();
    Ok(target.on_path("read link", volume.path().join(DATA))?.map(PathBuf::into_os_string))
}

fn has_exactly(folder: &Folder, files: &[ProjectedFile]) -> Result<bool, FileError> {
    let mut expected = BTreeSet::new();
    for file in files {
        let path = plain(&file.path);
        if !has_content(folder, &path, &file.content)? {
            return Ok(false);
        }
        expected.extend(path.ancestors().filter(|part| !part.as_os_str().is_empty()).map(Path::to_path_buf));
    }
    let mut present = BTreeSet::new();
    collect_paths(folder, Path::new(""), &mut present)?;
    Ok(present == expected)
}

fn has_content(folder: &Folder, path: &Path, content: &[u8]) -> Result<bool, FileError> {
    let Some(name) = path.file_name() else { return Ok(false) };
    let parent = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => folder.existing(parent),
        None => folder.existing("."),
    };
    let Ok(Some(parent)) = parent else { return Ok(false) };
    let Some(stat) = parent.stat(name)? else { return Ok(false) };
    if file_type(&stat) != FileType::RegularFile
        || u64::try_from(stat.st_size).ok() != Some(content.len() as u64)
    {
        return Ok(false);
    }
    Ok(parent.read_file(name, "read file")?.is_some_and(|present| present == content))
}

fn collect_paths(folder: &Folder, prefix: &Path, found: &mut BTreeSet<PathBuf>) -> Result<(), FileError> {
    for name in folder.names()? {
        let path = prefix.join(&name);
        if folder.is(&name, FileType::Directory)?
            && let Some(inner) = folder.existing(&name)?
        {
            collect_paths(&inner, &path, found)?;
        }
        found.insert(path);
    }
    Ok(())
}

/// Creates the timestamped folder for new files.
fn new_folder(volume: &Folder, now: Timestamp) -> Result<OsString, FileError> {
    // 2026-01-02T03:04:05.678Z becomes ..2026_01_02_03_04_05.<number>
    let text = now.to_rfc3339();
    let stamp: String = text
        .chars()
        .take("2026-01-02T03:04:05".len())
        .map(|letter| if letter.is_ascii_digit() { letter } else { '_' })
        .collect();
    let mut number = now.as_nanos().unsigned_abs() % 1_000_000_000;
    loop {
        let name = format!("..{stamp}.{number}");
        match rustix::fs::mkdirat(volume, &name, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) => {
                let made = volume.existing(&name)?;
                if let Some(folder) = made {
                    folder.set_mode(FOLDER_MODE)?;
                }
                return Ok(name.into());
            }
            Err(Errno::EXIST) => number += 1,
            Err(error) => return Err(error).on_path("make folder", volume.path().join(name)),
        }
    }
}

fn write_file(folder: &Folder, file: &ProjectedFile) -> Result<(), FileError> {
    let path = plain(&file.path);
    let full = folder.path().join(&path);
    let name = path.file_name().unwrap_or_default();
    let made;
    let parent = match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => {
            made = folder.make_below(parent, FOLDER_MODE)?;
            &made
        }
        None => folder,
    };
    write_content(parent, name, file).on_path("write file", full)
}

fn write_content(parent: &Folder, name: &OsStr, file: &ProjectedFile) -> io::Result<()> {
    // If two sources have the same path, the later one wins.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let descriptor = rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))?;
    let mut open = File::from(descriptor);
    open.write_all(&file.content)?;
    if let Some(owner) = file.owner {
        rustix::fs::fchown(&open, Some(Uid::from_raw(owner)), None)?;
    }
    rustix::fs::fchmod(&open, Mode::from_raw_mode(file.mode & 0o7777))?;
    Ok(())
}

/// Points `..data` to another folder.
fn swap(volume: &Folder, to: &OsStr) -> Result<(), FileError> {
    let path = volume.path().join(DATA);
    // Leftover of an agent that was killed at this point.
    volume.remove_file(OsStr::new(NEW_DATA), "remove")?;
    rustix::fs::symlinkat(to, volume, NEW_DATA).on_path("make link", volume.path().join(NEW_DATA))?;
    rustix::fs::renameat(volume, NEW_DATA, volume, DATA).on_path("replace link", path)
}

/// Creates missing visible links.
fn link_visible(volume: &Folder, files: &[ProjectedFile]) -> Result<(), FileError> {
    for file in files {
        let path = plain(&file.path);
        let Some(Component::Normal(name)) = path.components().next() else { continue };
        // Keep anything that has the name, such as a mount point of another volume.
        if volume.stat(name)?.is_some() {
            continue;
        }
        let link = volume.path().join(name);
        rustix::fs::symlinkat(Path::new(DATA).join(name), volume, name).on_path("make link", &link)?;
        if let Some(owner) = file.owner {
            let owner = Some(Uid::from_raw(owner));
            rustix::fs::chownat(volume, name, owner, None, AtFlags::SYMLINK_NOFOLLOW)
                .on_path("set owner of", link)?;
        }
    }
    Ok(())
}

/// Removes links to deleted files, old timestamped folders and leftovers of killed agents.
fn remove_stale(volume: &Folder, files: &[ProjectedFile], current: &OsStr) -> Result<(), FileError> {
    let visible: BTreeSet<OsString> =
        files.iter().filter_map(|file| plain(&file.path).iter().next().map(OsStr::to_os_string)).collect();
    for name in volume.names()? {
        if name == DATA || name == *current || visible.contains(&name) {
            continue;
        }
        if name.as_bytes().starts_with(b"..") || is_visible_link(volume, &name)? {
            tree::remove(volume, &name)?;
        }
    }
    Ok(())
}

fn is_visible_link(volume: &Folder, name: &OsStr) -> Result<bool, FileError> {
    match volume.link_target(name) {
        Ok(target) => Ok(target == Path::new(DATA).join(name)),
        Err(Errno::INVAL | Errno::NOENT) => Ok(false),
        Err(error) => Err(error).on_path("read link", volume.path().join(name)),
    }
}

fn check_path(path: &Path) -> io::Result<()> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(invalid_input("invalid path: must not be empty"));
    }
    if path.is_absolute() {
        return Err(invalid_input("invalid path: must be relative path"));
    }
    if bytes.len() > MAX_PATH_BYTES {
        return Err(invalid_input("invalid path: must be less than or equal to 4096 characters"));
    }
    let names = || bytes.split(|byte| *byte == b'/');
    if names().any(|name| name == b"..") {
        return Err(invalid_input("invalid path: must not contain '..'"));
    }
    if names().any(|name| name.len() > MAX_NAME_BYTES) {
        return Err(invalid_input("invalid path: filenames must be less than or equal to 255 characters"));
    }
    if plain(path).as_os_str().as_bytes().starts_with(b"..") {
        return Err(invalid_input("invalid path: must not start with '..'"));
    }
    if plain(path).as_os_str().is_empty() {
        return Err(invalid_input("invalid path: not a file name"));
    }
    Ok(())
}

/// The path without `.` and doubled slashes.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

#[cfg(test)]
mod tests;
