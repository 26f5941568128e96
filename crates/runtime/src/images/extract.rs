//! Unpacks a layer into a folder of overlayfs. Nothing that the layer contains can leave that folder.
//!
//! The folder is private to this extraction: only the content of the archive is hostile, no other process.

mod folders;
mod metadata;
mod removal;

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::tar::{Entry, EntryKind, ModifiedAt, TarError, TarReader};
use folders::Folders;
pub(crate) use removal::remove_tree;

const WHITEOUT: &[u8] = b".wh.";
/// Marks a folder that hides the content of lower layers.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Other files of aufs, which mean nothing to overlayfs.
const AUFS_FILES: &[u8] = b".wh..wh.";

#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    #[error(transparent)]
    Archive(#[from] TarError),
    #[error("failed to {operation} {path:?}")]
    File { operation: &'static str, path: String, source: Errno },
    #[error("failed to write {path:?}")]
    Write { path: String, source: io::Error },
    #[error("invalid path {0:?} in a layer")]
    InvalidPath(String),
    #[error("layer has more than {0} entries")]
    TooManyEntries(u64),
    #[error("files of a layer are larger than {0} bytes")]
    TooLarge(u64),
}

/// Bounds of one layer.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub entries: u64,
    /// Sum of the sizes of its files.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 2_000_000, bytes: 256 * 1024 * 1024 * 1024 }
    }
}

/// Disk usage of an extracted layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    pub bytes: u64,
    pub entries: u64,
}

/// Unpacks `archive` into the empty folder `root`. `lower` has the roots of the layers below, the top one first.
///
/// Reads the archive up to its end marker; the caller reads the rest.
pub fn extract<R: Read>(
    archive: R,
    root: &Path,
    lower: &[PathBuf],
    limits: Limits,
) -> Result<(Extracted, R), ExtractError> {
    let mut extraction = Extraction {
        folders: Folders::open(root, lower)?,
        folder_times: Vec::new(),
        extracted: Extracted::default(),
        limits,
    };
    let mut reader = TarReader::new(archive);
    while let Some(entry) = reader.next_entry()? {
        extraction.add(&entry, &mut reader)?;
    }
    extraction.set_folder_times()?;
    Ok((extraction.extracted, reader.into_inner()))
}

struct Extraction {
    folders: Folders,
    /// Set at the end, because adding an entry changes the time of its folder.
    folder_times: Vec<(Vec<u8>, ModifiedAt)>,
    extracted: Extracted,
    limits: Limits,
}

/// Where an entry is created.
struct Place<'a> {
    parent: &'a OwnedFd,
    name: &'a OsStr,
    /// For error messages.
    path: &'a [u8],
}

impl Extraction {
    fn add<R: Read>(&mut self, entry: &Entry, reader: &mut TarReader<R>) -> Result<(), ExtractError> {
        self.count(entry)?;
        let path = clean(&entry.path);
        let Some((parent, name)) = split_last(&path) else { return Ok(()) };
        if name == OPAQUE {
            let folder = self.folders.make(&parent)?;
            return metadata::set_opaque(&folder, &parent);
        }
        if name.starts_with(AUFS_FILES) {
            return Ok(());
        }
        let parent = self.folders.make(&parent)?;
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            let place = Place { parent: &parent, name: OsStr::from_bytes(hidden), path: &path };
            return whiteout(&place, entry);
        }
        let place = Place { parent: &parent, name: OsStr::from_bytes(name), path: &path };
        let hides_lower = self.make_room(&place, &entry.kind)?;
        self.create(&place, entry, reader)?;
        if entry.kind == EntryKind::Folder {
            if hides_lower {
                let folder = folders::open_folder(&parent, place.name).on("open folder", &path)?;
                metadata::set_opaque(&folder, &path)?;
            }
            self.folder_times.push((path, entry.modified));
        }
        Ok(())
    }

    fn count(&mut self, entry: &Entry) -> Result<(), ExtractError> {
        self.extracted.entries += 1;
        self.extracted.bytes = self.extracted.bytes.saturating_add(entry.size);
        if self.extracted.entries > self.limits.entries {
            return Err(ExtractError::TooManyEntries(self.limits.entries));
        }
        if self.extracted.bytes > self.limits.bytes {
            return Err(ExtractError::TooLarge(self.limits.bytes));
        }
        Ok(())
    }

    /// Removes what an earlier entry of this layer made at the place, unless both are folders. Returns whether it was
    /// a whiteout: a folder that replaces one must hide the folder below.
    fn make_room(&mut self, place: &Place<'_>, kind: &EntryKind) -> Result<bool, ExtractError> {
        let stat = match rustix::fs::statat(place.parent, place.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(false),
            result => result.on("stat", place.path)?,
        };
        let file_type = FileType::from_raw_mode(stat.st_mode);
        if file_type == FileType::Directory && *kind == EntryKind::Folder {
            return Ok(false);
        }
        self.folders.forget();
        remove_tree(place.parent.as_fd(), place.name).on("replace", place.path)?;
        Ok(file_type == FileType::CharacterDevice && stat.st_rdev == 0)
    }

    fn create<R: Read>(
        &mut self,
        place: &Place<'_>,
        entry: &Entry,
        reader: &mut TarReader<R>,
    ) -> Result<(), ExtractError> {
        let make_node = |kind, major, minor| {
            let device = rustix::fs::makedev(major, minor);
            rustix::fs::mknodat(place.parent, place.name, kind, Mode::from_raw_mode(0o600), device)
                .on("create device", place.path)
        };
        match &entry.kind {
            EntryKind::File => {
                let file = create_file(place, entry, reader)?;
                return metadata::apply_to_file(&file, place, entry);
            }
            EntryKind::HardLink(target) => return self.hard_link(place, target),
            EntryKind::Folder => {
                let made = rustix::fs::mkdirat(place.parent, place.name, Mode::from_raw_mode(0o700));
                if made != Err(Errno::EXIST) {
                    made.on("create folder", place.path)?;
                }
            }
            EntryKind::SymbolicLink(target) => {
                rustix::fs::symlinkat(target.as_slice(), place.parent, place.name)
                    .on("create symbolic link", place.path)?;
            }
            EntryKind::CharacterDevice(major, minor) => make_node(FileType::CharacterDevice, *major, *minor)?,
            EntryKind::BlockDevice(major, minor) => make_node(FileType::BlockDevice, *major, *minor)?,
            EntryKind::Fifo => make_node(FileType::Fifo, 0, 0)?,
        }
        metadata::apply(place, entry)
    }

    /// Links to a file that an earlier entry of this layer made. The last part of the target is not followed.
    fn hard_link(&mut self, place: &Place<'_>, target: &[u8]) -> Result<(), ExtractError> {
        let target = clean(target);
        let (folder, name) = split_last(&target).ok_or_else(|| invalid(place.path))?;
        let folder = self.folders.existing(&folder)?;
        rustix::fs::linkat(&folder, OsStr::from_bytes(name), place.parent, place.name, AtFlags::empty())
            .on("create hard link", place.path)
    }

    fn set_folder_times(&mut self) -> Result<(), ExtractError> {
        for (path, modified) in std::mem::take(&mut self.folder_times) {
            // A later entry may have replaced the folder, or a folder on its path.
            if let Ok(folder) = self.folders.existing(&path) {
                metadata::set_time(&folder, OsStr::new("."), modified).on("set time of", &path)?;
            }
        }
        Ok(())
    }
}

fn create_file<R: Read>(
    place: &Place<'_>,
    entry: &Entry,
    reader: &mut TarReader<R>,
) -> Result<std::fs::File, ExtractError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(place.parent, place.name, flags, Mode::from_raw_mode(0o600))
        .on("create file", place.path)?;
    let file = std::fs::File::from(file);
    let mut written = 0;
    reader
        .copy_data(entry, |offset, bytes| {
            written = offset + bytes.len() as u64;
            file.write_all_at(bytes, offset)
        })
        .map_err(|error| match error {
            TarError::Read(source) => ExtractError::Write { path: shown(place.path), source },
            other => other.into(),
        })?;
    if written < entry.size {
        file.set_len(entry.size).map_err(|source| ExtractError::Write { path: shown(place.path), source })?;
    }
    Ok(file)
}

/// Hides a file of lower layers. An entry of this layer with the name stays: whiteouts apply to lower layers only.
fn whiteout(place: &Place<'_>, entry: &Entry) -> Result<(), ExtractError> {
    if matches!(place.name.as_bytes(), b"" | b"." | b"..") {
        return Err(invalid(place.path));
    }
    let made = rustix::fs::mknodat(place.parent, place.name, FileType::CharacterDevice, Mode::empty(), 0);
    if made != Err(Errno::EXIST) {
        made.on("create whiteout", place.path)?;
        return metadata::set_owner(place, entry);
    }
    match folders::open_folder(place.parent, place.name) {
        Ok(folder) => metadata::set_opaque(&folder, place.path),
        Err(_) => Ok(()),
    }
}

/// Removes empty parts, `.` and `..`; a path cannot climb above the root.
fn clean(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

/// Folder and last part of a clean path; `None` for the root.
fn split_last(path: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    if path.is_empty() {
        return None;
    }
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => Some((path.get(..at)?.to_vec(), path.get(at + 1..)?)),
        None => Some((Vec::new(), path)),
    }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn invalid(path: &[u8]) -> ExtractError {
    ExtractError::InvalidPath(shown(path))
}

trait OnEntry<T> {
    fn on(self, operation: &'static str, path: &[u8]) -> Result<T, ExtractError>;
}

impl<T> OnEntry<T> for Result<T, Errno> {
    fn on(self, operation: &'static str, path: &[u8]) -> Result<T, ExtractError> {
        self.map_err(|source| ExtractError::File { operation, path: shown(path), source })
    }
}

#[cfg(test)]
mod tests;
