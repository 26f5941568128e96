//! Computes the folders that must be watched for one path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The kernel's limit of symlinks in a path.
const MAX_LINKS: usize = 40;

/// The relevant events of one watched folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// All entries are relevant, not only `names`.
    pub(super) everything: bool,
    /// Content changes of entries are relevant.
    pub(super) content: bool,
    names: BTreeSet<OsString>,
}

impl Interest {
    /// Whether an event of an entry is relevant; `None` means the folder itself.
    pub(super) fn covers(&self, name: Option<&OsStr>) -> bool {
        self.everything || name.is_none_or(|name| self.names.contains(name))
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.everything |= other.everything;
        self.content |= other.content;
        self.names.extend(other.names.iter().cloned());
    }
}

/// Real paths of folders with their relevant events.
pub(super) type WatchedFolders = BTreeMap<PathBuf, Interest>;

/// Every folder in which a change can affect the target or the content of the absolute `path`.
pub(super) fn folders_to_watch(path: &Path) -> WatchedFolders {
    let mut folders = WatchedFolders::new();
    let Some(folder) = resolve(&mut folders, Path::new("/"), path) else { return folders };
    let interest = folders.entry(folder.clone()).or_default();
    interest.everything = true;
    interest.content = true;
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            resolve(&mut folders, &folder, Path::new(&entry.file_name()));
        }
    }
    folders
}

/// Resolves `path` from the real folder `start` and records each folder with the name looked up in it. Returns the
/// real folder of the path, `None` if it is a file or does not exist.
fn resolve(folders: &mut WatchedFolders, start: &Path, path: &Path) -> Option<PathBuf> {
    let mut current = start.to_path_buf();
    let mut remaining = reversed(path);
    let mut links = 0;
    while let Some(part) = remaining.pop() {
        if part == "/" {
            current = PathBuf::from("/");
        } else if part == ".." {
            current.pop();
        } else if part != "." {
            let interest = folders.entry(current.clone()).or_default();
            interest.names.insert(part.clone());
            let next = current.join(&part);
            match std::fs::symlink_metadata(&next) {
                Ok(metadata) if metadata.is_dir() => current = next,
                Ok(metadata) if metadata.is_symlink() && links < MAX_LINKS => {
                    links += 1;
                    remaining.extend(reversed(&std::fs::read_link(&next).ok()?));
                }
                Ok(_) | Err(_) => {
                    interest.content = true;
                    return None;
                }
            }
        }
    }
    Some(current)
}

fn reversed(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|component| component.as_os_str().to_os_string()).collect()
}
