//! Disk usage of the store.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::disk::{OnPath, StoreError, names};
use super::{ImageStore, layers, roots};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    pub bytes: u64,
    pub inodes: u64,
}

impl ImageStore {
    /// Usage of all layers, blobs and writable layers.
    pub fn usage(&self) -> Result<DiskUsage, StoreError> {
        let folders = &self.inner.folders;
        let mut usage = measure(&folders.blobs())?;
        for name in names(&folders.layers())? {
            if let Some(record) = layers::read_record(&folders.layers().join(name)) {
                usage.bytes += record.bytes;
                usage.inodes += record.entries;
            }
        }
        for name in names(&folders.roots())? {
            let writable = measure(&folders.roots().join(name).join(roots::WRITABLE))?;
            usage.bytes += writable.bytes;
            usage.inodes += writable.inodes;
        }
        Ok(usage)
    }

    /// Usage of the writable layer of a container.
    pub fn writable_usage(&self, container: &str) -> Result<DiskUsage, StoreError> {
        measure(&self.root_folder(container)?.join(roots::WRITABLE))
    }
}

/// Counts allocated blocks below a folder. Files that disappear meanwhile are skipped; no link is followed.
fn measure(folder: &Path) -> Result<DiskUsage, StoreError> {
    let mut usage = DiskUsage::default();
    let mut pending: Vec<PathBuf> = vec![folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.on_path("list", &folder)?,
        };
        for entry in entries {
            let Ok(metadata) =
                entry.as_ref().map_err(|_| ()).and_then(|entry| entry.metadata().map_err(|_| ()))
            else {
                continue;
            };
            usage.inodes += 1;
            usage.bytes += metadata.blocks() * 512;
            if let (true, Ok(entry)) = (metadata.is_dir(), entry) {
                pending.push(entry.path());
            }
        }
    }
    Ok(usage)
}
