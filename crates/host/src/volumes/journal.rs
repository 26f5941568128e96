//! The journal of a pod's mounts: `pods/<uid>/mounts`.
//!
//! An entry is written before the mount and removed after the unmount, so that a restarted agent knows every possible
//! mount. The file is replaced atomically; each line is a kind, a tab and a path below the pod's folder.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use ports::host::pod_folders::FileError;

use crate::errors::OnPath;
use crate::files::atomic_file;
use crate::files::folder::Folder;

const FILE: &str = "mounts";
const VERSION: &str = "podward mounts 1";

/// A mount that exists or was about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// For example `tmpfs` or `bind`.
    pub(super) kind: String,
    /// Mount point, relative to the pod's folder.
    pub(super) path: PathBuf,
}

pub(super) struct Journal<'a> {
    pod: &'a Folder,
}

impl<'a> Journal<'a> {
    pub(super) fn of(pod: &'a Folder) -> Self {
        Self { pod }
    }

    /// All entries. A malformed file counts as empty, because callers also check the mount table.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, FileError> {
        let text = self.pod.read_file(OsStr::new(FILE), "read")?.unwrap_or_default();
        Ok(parse(&String::from_utf8_lossy(&text)))
    }

    pub(super) fn record(&self, path: &Path, kind: &str) -> Result<(), FileError> {
        let mut entries = self.entries()?;
        if entries.iter().any(|entry| entry.path == path) {
            return Ok(());
        }
        if path.to_str().is_none_or(|text| text.contains(['\n', '\t'])) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput))
                .on_path("record mount at", self.pod.path().join(path));
        }
        entries.push(Entry { kind: kind.to_owned(), path: path.to_path_buf() });
        self.save(&entries)
    }

    pub(super) fn save(&self, entries: &[Entry]) -> Result<(), FileError> {
        let mut text = format!("{VERSION}\n");
        for entry in entries {
            text.push_str(&format!("{}\t{}\n", entry.kind, entry.path.display()));
        }
        atomic_file::write(self.pod, OsStr::new(FILE), text.as_bytes(), 0o640)
    }
}

fn parse(text: &str) -> Vec<Entry> {
    let mut lines = text.lines();
    if lines.next() != Some(VERSION) {
        return Vec::new();
    }
    lines
        .filter_map(|line| line.split_once('\t'))
        .map(|(kind, path)| Entry { kind: kind.to_owned(), path: path.into() })
        .collect()
}
