//! The journal of a pod's mounts: `pods/<uid>/mounts`.
//!
//! An entry is written before the mount and removed after the unmount, so that a restarted agent knows every possible
//! mount. The file is replaced atomically; after a header with the version, each line is a kind, a tab and a path below the
//! pod's folder.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use ports::host::pod_folders::FileError;
use values::format_version::{FormatVersion, NewerFormat};

use crate::errors::OnPath;
use crate::files::atomic_file;
use crate::files::folder::Folder;

const FILE: &str = "mounts";
const HEADER: &str = "podward mounts ";
const FORMAT: FormatVersion = FormatVersion::new(1);

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

    /// All entries. A malformed file and one of a newer release count as empty: callers also check the mount table, from
    /// which the journal is completed at every start.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, FileError> {
        let text = self.pod.read_file(OsStr::new(FILE), "read")?.unwrap_or_default();
        Ok(parse(&String::from_utf8_lossy(&text)).unwrap_or_else(|error| {
            tracing::warn!(file = %self.pod.path().join(FILE).display(), %error, "ignoring mount journal, using the mount table");
            Vec::new()
        }))
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
        let mut text = format!("{HEADER}{}\n", FORMAT.newest());
        for entry in entries {
            text.push_str(&format!("{}\t{}\n", entry.kind, entry.path.display()));
        }
        atomic_file::write(self.pod, OsStr::new(FILE), text.as_bytes(), 0o640)
    }
}

fn parse(text: &str) -> Result<Vec<Entry>, NewerFormat> {
    let mut lines = text.lines();
    let Some(version) = lines.next().and_then(|line| FORMAT.check_header(line, HEADER)) else {
        return Ok(Vec::new());
    };
    version?;
    let entries = lines.filter_map(|line| line.split_once('\t'));
    Ok(entries.map(|(kind, path)| Entry { kind: kind.to_owned(), path: path.into() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_journal_of_an_earlier_release() {
        let recorded =
            include_str!("../../../podward/tests/state/0.1.0/pods/ab6d6ff8d7dad3e09c1ef5b8488bcc8b/mounts");
        let entry = Entry { kind: "tmpfs".to_owned(), path: "volumes/kubernetes.io~secret/keys".into() };
        assert_eq!(parse(recorded), Ok(vec![entry]));
    }

    #[test]
    fn reads_its_own_version_only() {
        let entry = Entry { kind: "tmpfs".to_owned(), path: "volumes/a/b".into() };
        assert_eq!(parse("podward mounts 1\ntmpfs\tvolumes/a/b\n"), Ok(vec![entry]));
        assert_eq!(parse("something else\ntmpfs\tvolumes/a/b\n"), Ok(Vec::new()));
        assert_eq!(parse("podward mounts 2\nother"), Err(NewerFormat { found: 2, supported: 1 }));
    }
}
