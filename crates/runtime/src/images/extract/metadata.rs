//! Owner, mode, times and extended attributes of extracted files.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::{ExtractError, OnEntry, Place};
use crate::images::tar::{Entry, EntryKind, ModifiedAt};

const OPAQUE: &CStr = c"trusted.overlay.opaque";
/// More than Linux allows for all names of a file.
const MAX_ATTRIBUTE: usize = 64 * 1024;

use std::ffi::CStr;

pub(super) fn set_opaque(folder: &OwnedFd, path: &[u8]) -> Result<(), ExtractError> {
    rustix::fs::fsetxattr(folder, OPAQUE, b"y", XattrFlags::empty()).on("mark as opaque", path)
}

pub(super) fn set_owner(place: &Place<'_>, entry: &Entry) -> Result<(), ExtractError> {
    rustix::fs::chownat(
        place.parent,
        place.name,
        Some(Uid::from_raw(entry.uid)),
        Some(Gid::from_raw(entry.gid)),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .on("set owner of", place.path)
}

/// Metadata of a file, through its descriptor. The mode comes after the owner, which clears the set-user-id bit.
pub(super) fn apply_to_file(file: &File, place: &Place<'_>, entry: &Entry) -> Result<(), ExtractError> {
    let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
    rustix::fs::fchown(file, Some(uid), Some(gid)).on("set owner of", place.path)?;
    for (name, value) in accepted(entry) {
        let set = rustix::fs::fsetxattr(file, name.as_c_str(), value, XattrFlags::empty());
        ignore_unsupported(set, false).on("set attribute of", place.path)?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(entry.mode)).on("set mode of", place.path)?;
    rustix::fs::futimens(file, &times(entry.modified)).on("set time of", place.path)
}

/// Metadata of a folder, link, device or FIFO.
pub(super) fn apply(place: &Place<'_>, entry: &Entry) -> Result<(), ExtractError> {
    set_owner(place, entry)?;
    let is_link = matches!(entry.kind, EntryKind::SymbolicLink(_));
    let path = through_descriptor(place.parent, place.name);
    for (name, value) in accepted(entry) {
        let set = rustix::fs::lsetxattr(&path, name.as_c_str(), value, XattrFlags::empty());
        let is_special = entry.kind != EntryKind::Folder;
        ignore_unsupported(set, is_special).on("set attribute of", place.path)?;
    }
    if !is_link {
        // Follows links, but this entry was just created and is none.
        rustix::fs::chmodat(place.parent, place.name, Mode::from_raw_mode(entry.mode), AtFlags::empty())
            .on("set mode of", place.path)?;
    }
    set_time(place.parent, place.name, entry.modified).on("set time of", place.path)
}

pub(super) fn set_time(parent: &OwnedFd, name: &OsStr, modified: ModifiedAt) -> Result<(), Errno> {
    rustix::fs::utimensat(parent, name, &times(modified), AtFlags::SYMLINK_NOFOLLOW)
}

/// Gives a folder the metadata of the same folder in a lower layer.
pub(super) fn copy_folder(from: &OwnedFd, to: &OwnedFd, path: &[u8]) -> Result<(), ExtractError> {
    let stat = rustix::fs::fstat(from).on("stat lower", path)?;
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    rustix::fs::fchown(to, Some(uid), Some(gid)).on("set owner of", path)?;
    for name in attribute_names(from).on("list attributes of lower", path)? {
        let mut value = vec![0; MAX_ATTRIBUTE];
        let length =
            rustix::fs::fgetxattr(from, name.as_c_str(), &mut value).on("read attribute of lower", path)?;
        value.truncate(length);
        rustix::fs::fsetxattr(to, name.as_c_str(), &value, XattrFlags::empty())
            .on("set attribute of", path)?;
    }
    rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777)).on("set mode of", path)?;
    let modified = ModifiedAt {
        seconds: stat.st_mtime,
        nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
    };
    set_time(to, OsStr::new("."), modified).on("set time of", path)
}

/// Attributes without those of overlayfs itself.
fn attribute_names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut list = vec![0; MAX_ATTRIBUTE];
    let length = match rustix::fs::flistxattr(folder, &mut list) {
        Err(Errno::OPNOTSUPP) => 0,
        result => result?,
    };
    list.truncate(length);
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let names = names.filter(|name| !name.starts_with(b"trusted.overlay."));
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

/// `trusted.` attributes steer overlayfs and are never taken from an image.
fn accepted(entry: &Entry) -> impl Iterator<Item = (CString, &[u8])> {
    let attributes = entry.attributes.iter().filter(|(name, _)| !name.starts_with(b"trusted."));
    attributes.filter_map(|(name, value)| Some((CString::new(name.as_slice()).ok()?, value.as_slice())))
}

/// File systems without attributes, and `user.` attributes of links and devices, which Linux does not allow.
fn ignore_unsupported(result: Result<(), Errno>, is_special: bool) -> Result<(), Errno> {
    match result {
        Err(Errno::OPNOTSUPP) => Ok(()),
        Err(Errno::PERM) if is_special => Ok(()),
        other => other,
    }
}

fn times(modified: ModifiedAt) -> Timestamps {
    let time = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// There is no `setxattrat` on the kernels that are supported.
fn through_descriptor(parent: &OwnedFd, name: &OsStr) -> PathBuf {
    let mut path = OsString::from(format!("/proc/self/fd/{}/", parent.as_fd().as_raw_fd()));
    path.push(OsStr::from_bytes(name.as_bytes()));
    path.into()
}
