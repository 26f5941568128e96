//! Records of image pulls, in upstream's location.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use async_trait::async_trait;
use ports::host::pod_folders::FileError;
use ports::host::pull_records::{PullRecordKind, PullRecords};
use rustix::fs::FileType;

use crate::checkpoints::state_files::StateFiles;
use crate::errors::{entry_name, read_at_most};
use crate::files::atomic_file::{self, Durability};
use crate::files::folder::{Folder, file_type};

const PREFIX: &str = "sha256-";
/// Suffix of the kubelet's temporary files.
const TEMPORARY: &str = ".tmp";
/// A record holds at most a hundred secrets per image name, which is far less.
const MAX_RECORD_BYTES: u64 = 4 << 20;

/// Records lie below `<root-dir>/image_manager`; the folder of the files is `<root-dir>`.
#[async_trait]
impl PullRecords for StateFiles {
    async fn list(&self, of: PullRecordKind) -> Result<Vec<(String, Vec<u8>)>, FileError> {
        self.in_order(move |root| list(root, of)).await
    }

    async fn save(&self, of: PullRecordKind, name: String, content: Vec<u8>) -> Result<(), FileError> {
        let durability = match of {
            PullRecordKind::Pulling => Durability::Flushed,
            // The intent is removed afterwards, so one of the two files survives a crash.
            PullRecordKind::Pulled => Durability::Ordered,
        };
        let save = move |root: &Path| {
            let folder = Folder::make(root, 0o750)?.make_below(subfolder(of), 0o700)?;
            atomic_file::replace(&folder, entry_name(&name)?.as_os_str(), &content, 0o600, durability)
        };
        self.in_order(save).await
    }

    async fn remove(&self, of: PullRecordKind, name: String) -> Result<(), FileError> {
        let remove = move |root: &Path| {
            let Some(folder) = open(root, of)? else { return Ok(()) };
            folder.remove_file(entry_name(&name)?.as_os_str(), "remove file")
        };
        self.in_order(remove).await
    }
}

fn subfolder(of: PullRecordKind) -> &'static str {
    match of {
        PullRecordKind::Pulling => "image_manager/pulling",
        PullRecordKind::Pulled => "image_manager/pulled",
    }
}

fn open(root: &Path, of: PullRecordKind) -> Result<Option<Folder>, FileError> {
    Folder::open(root)?.map_or(Ok(None), |root| root.existing(subfolder(of)))
}

fn list(root: &Path, of: PullRecordKind) -> Result<Vec<(String, Vec<u8>)>, FileError> {
    let Some(folder) = open(root, of)? else { return Ok(Vec::new()) };
    let mut records = Vec::new();
    for name in folder.names()? {
        let Some(text) = name.to_str().filter(|name| name.starts_with(PREFIX) && !name.ends_with(TEMPORARY))
        else {
            continue;
        };
        if folder.stat(&name)?.is_some_and(|stat| file_type(&stat) != FileType::Directory) {
            records.push((text.to_owned(), read(&folder, &name)));
        }
    }
    Ok(records)
}

/// Empty if the record cannot be read: its existence alone has a meaning.
fn read(folder: &Folder, name: &OsStr) -> Vec<u8> {
    let Ok(Some(file)) = folder.open_file(name) else { return Vec::new() };
    read_at_most(File::from(file), MAX_RECORD_BYTES).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn records_are_stored_in_upstream_location() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        let records = StateFiles::new(&root);
        assert_eq!(records.list(PullRecordKind::Pulled).await.unwrap(), []);
        for kind in [PullRecordKind::Pulling, PullRecordKind::Pulled] {
            records.save(kind, "sha256-a".to_owned(), b"one".to_vec()).await.unwrap();
            records.save(kind, "sha256-a".to_owned(), b"two".to_vec()).await.unwrap();
            records.save(kind, "sha256-b".to_owned(), b"three".to_vec()).await.unwrap();
            records.remove(kind, "sha256-b".to_owned()).await.unwrap();
            records.remove(kind, "sha256-b".to_owned()).await.unwrap();
        }
        for folder in ["pulling", "pulled"] {
            let folder = root.join("image_manager").join(folder);
            assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
            let file = folder.join("sha256-a");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
            assert_eq!(folder.read_dir().unwrap().count(), 1);
        }
        assert!(records.save(PullRecordKind::Pulled, "../x".to_owned(), Vec::new()).await.is_err());
    }

    #[tokio::test]
    async fn list_skips_other_files_and_does_not_follow_links() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("image_manager/pulled");
        std::fs::create_dir_all(folder.join("sha256-folder")).unwrap();
        std::fs::write(folder.join("sha256-a"), "one").unwrap();
        std::fs::write(folder.join("sha256-a.tmp"), "torn").unwrap();
        std::fs::write(folder.join("notes"), "other").unwrap();
        std::fs::write(scratch.path().join("elsewhere"), "secret").unwrap();
        std::os::unix::fs::symlink(scratch.path().join("elsewhere"), folder.join("sha256-link")).unwrap();
        let listed = StateFiles::new(scratch.path()).list(PullRecordKind::Pulled).await.unwrap();
        let expected = [("sha256-a", &b"one"[..]), ("sha256-link", b"")];
        assert_eq!(listed, expected.map(|(name, content)| (name.to_owned(), content.to_vec())));
    }
}
