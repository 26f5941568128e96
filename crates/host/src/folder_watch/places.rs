//! Which folders must be watched for one path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// As many symlinks as the kernel follows.
const MOST_LINKS: usize = 40;

/// What matters in one watched folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// All entries matter.
    pub(super) everything: bool,
    /// The content of entries matters, not only which entries there are.
    pub(super) content: bool,
    names: BTreeSet<OsString>,
}

impl Interest {
    /// Whether an event of this entry (`None`: of the folder itself) matters.
    pub(super) fn covers(&self, name: Option<&OsStr>) -> bool {
        self.everything || name.is_none_or(|name| self.names.contains(name))
    }

    /// Adds another interest in the same folder.
    pub(super) fn merge(&mut self, other: &Self) {
        self.everything |= other.everything;
        self.content |= other.content;
        self.names.extend(other.names.iter().cloned());
    }
}

/// Real folders and what matters in them.
pub(super) type Places = BTreeMap<PathBuf, Interest>;

/// Every folder in which a change can alter what the absolute `path` leads to, or what is in it.
pub(super) fn places(path: &Path) -> Places {
    let mut places = Places::new();
    let Some(folder) = follow(&mut places, Path::new("/"), path) else { return places };
    let interest = places.entry(folder.clone()).or_default();
    interest.everything = true;
    interest.content = true;
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            follow(&mut places, &folder, Path::new(&entry.file_name()));
        }
    }
    places
}

/// Walks from the real folder `start`, noting each folder passed with the name looked up in it. Returns the
/// real folder that the path leads to, `None` if it leads to a file or to nothing.
fn follow(places: &mut Places, start: &Path, path: &Path) -> Option<PathBuf> {
    let mut here = start.to_path_buf();
    let mut left = reversed(path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        if part == "/" {
            here = PathBuf::from("/");
        } else if part == ".." {
            here.pop();
        } else if part != "." {
            let interest = places.entry(here.clone()).or_default();
            interest.names.insert(part.clone());
            let next = here.join(&part);
            match std::fs::symlink_metadata(&next) {
                Ok(metadata) if metadata.is_dir() => here = next,
                Ok(metadata) if metadata.is_symlink() && links < MOST_LINKS => {
                    links += 1;
                    left.extend(reversed(&std::fs::read_link(&next).ok()?));
                }
                Ok(_) | Err(_) => {
                    interest.content = true;
                    return None;
                }
            }
        }
    }
    Some(here)
}

fn reversed(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|component| component.as_os_str().to_os_string()).collect()
}
