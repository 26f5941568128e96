//! Disk use of a tree, walked by descriptors.
//!
//! Pods create these trees, so the walk assumes nothing about them: paths may be longer than the kernel accepts, and nested
//! deeper than a process may open folders. Only the deepest folders stay open; the walk returns to a closed one through `..`
//! of the folder below it, and continues at the entry where it stopped.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use model::usage::{DiskUse, TreeUse};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use crate::files::folder::open_same_mount;

/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;
/// Folders that are open at the same time.
const MAX_OPEN_FOLDERS: usize = 24;
/// Files with several names that are remembered. Further ones are counted once per name.
const MAX_LINKED_FILES: usize = 1 << 18;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The use of a file, or of a folder with everything below it on the same mount. `None` if the path does not exist.
pub(super) fn tree_use(path: &Path, deadline: Instant) -> Option<TreeUse> {
    let top = rustix::fs::lstat(path).ok()?;
    let mut walk = TreeWalk { linked: HashSet::new(), used: disk_use(&top), deadline };
    let is_complete = match is_folder(&top) {
        true => walk.folder(path, Identity::of(&top)).is_some(),
        false => true,
    };
    Some(TreeUse { used: walk.used, is_complete })
}

fn disk_use(found: &Stat) -> DiskUse {
    DiskUse { bytes: u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES), inodes: 1 }
}

fn is_folder(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}

/// Identifies a file of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(found: &Stat) -> Self {
        Self { device: found.st_dev, inode: found.st_ino }
    }
}

/// A folder whose entries are partly counted.
struct OpenFolder {
    identity: Identity,
    /// `None` while it is closed.
    entries: Option<Dir>,
    /// Where the next entry begins.
    position: i64,
}

struct TreeWalk {
    /// Files with several names, which are counted once.
    linked: HashSet<Identity>,
    used: DiskUse,
    deadline: Instant,
}

impl TreeWalk {
    /// Counts everything below a folder; `None` if the deadline passed or the tree was moved during the walk.
    fn folder(&mut self, path: &Path, identity: Identity) -> Option<()> {
        let Ok(top) = rustix::fs::open(path, FOLDER, Mode::empty()) else { return Some(()) };
        let mut stack = vec![OpenFolder { identity, entries: Some(Dir::new(top).ok()?), position: 0 }];
        while let Some(current) = stack.last_mut() {
            match self.next_folder(current)? {
                Some(below) => {
                    stack.push(below);
                    close_outermost(&mut stack);
                }
                None => {
                    let finished = stack.pop()?;
                    if let Some(parent) = stack.last_mut() {
                        reopen(parent, &finished)?;
                    }
                }
            }
        }
        Some(())
    }

    /// Counts entries up to the next folder. The inner `None` is the end; the outer one a passed deadline.
    fn next_folder(&mut self, current: &mut OpenFolder) -> Option<Option<OpenFolder>> {
        let entries = current.entries.as_mut()?;
        // An unreadable rest of a folder, such as one that was removed, counts as its end.
        while let Some(Ok(entry)) = entries.read() {
            if Instant::now() >= self.deadline {
                return None;
            }
            current.position = entry.offset();
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(folder) = entries.fd() else { continue };
            let Ok(found) =
                rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
            else {
                continue;
            };
            if !is_folder(&found) {
                self.count_file(&found);
                continue;
            }
            // Refuses other mounts, but not the subvolumes of a btrfs.
            let Ok(below) = open_same_mount(folder, OsStr::from_bytes(name.to_bytes())) else { continue };
            if let Some(below) = open_folder(&below) {
                self.used = self.used + disk_use(&found);
                return Some(Some(below));
            }
        }
        Some(None)
    }

    fn count_file(&mut self, found: &Stat) {
        let is_known = found.st_nlink > 1
            && (self.linked.contains(&Identity::of(found))
                || (self.linked.len() < MAX_LINKED_FILES && !self.linked.insert(Identity::of(found))));
        if !is_known {
            self.used = self.used + disk_use(found);
        }
    }
}

fn open_folder(folder: impl AsFd) -> Option<OpenFolder> {
    let found = rustix::fs::fstat(&folder).ok()?;
    let entries = Some(Dir::read_from(&folder).ok()?);
    Some(OpenFolder { identity: Identity::of(&found), entries, position: 0 })
}

fn close_outermost(stack: &mut [OpenFolder]) {
    if let Some(outermost) = stack.len().checked_sub(MAX_OPEN_FOLDERS + 1)
        && let Some(folder) = stack.get_mut(outermost)
    {
        folder.entries = None;
    }
}

/// Opens the parent of a finished folder again; `None` if the finished folder was moved.
fn reopen(parent: &mut OpenFolder, finished: &OpenFolder) -> Option<()> {
    if parent.entries.is_some() {
        return Some(());
    }
    let below = finished.entries.as_ref()?.fd().ok()?;
    let folder = rustix::fs::openat(below.as_fd(), "..", FOLDER, Mode::empty()).ok()?;
    if Identity::of(&rustix::fs::fstat(&folder).ok()?) != parent.identity {
        return None;
    }
    let mut entries = Dir::new(folder).ok()?;
    entries.seek(parent.position).ok()?;
    parent.entries = Some(entries);
    Some(())
}

#[cfg(test)]
mod tests;
