//! The journal of a pod's mounts: `pods/<uid>/mounts`.
//!
//! A mount is written down before it is made and struck out after it is gone, so that a killed agent's successor
//! knows of every mount there can be. The file is replaced as a whole; each line is a kind, a tab and a path below
//! the pod's folder.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ports::pod_folders::FileError;

use crate::atomic_file;
use crate::failure::OnPath;
use crate::folder::Folder;

const FILE: &str = "mounts";
const VERSION: &str = "podward mounts 1";

/// A mount that was made or about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Such as `tmpfs` or `bind`.
    pub(super) kind: String,
    /// Mount point, relative to the pod's folder.
    pub(super) path: PathBuf,
}

/// The journal of one pod.
pub(super) struct Journal<'a> {
    pod: &'a Folder,
}

impl<'a> Journal<'a> {
    pub(super) fn of(pod: &'a Folder) -> Self {
        Self { pod }
    }

    /// Everything written down. A file nobody can read stands for nothing known: the mount table is looked at too.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, FileError> {
        let Some(descriptor) = self.pod.open_file(OsStr::new(FILE))? else { return Ok(Vec::new()) };
        let mut text = Vec::new();
        File::from(descriptor).read_to_end(&mut text).on_path("read", self.pod.path().join(FILE))?;
        Ok(parse(&String::from_utf8_lossy(&text)))
    }

    /// Writes a mount down.
    pub(super) fn note(&self, path: &Path, kind: &str) -> Result<(), FileError> {
        let mut entries = self.entries()?;
        if entries.iter().any(|entry| entry.path == path) {
            return Ok(());
        }
        if path.to_str().is_none_or(|text| text.contains(['\n', '\t'])) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput))
                .on_path("write down the mount at", self.pod.path().join(path));
        }
        entries.push(Entry { kind: kind.to_owned(), path: path.to_path_buf() });
        self.save(&entries)
    }

    /// Replaces all entries.
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
