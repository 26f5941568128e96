//! The store of images on disk.
//!
//! ```text
//! images/<hex of the id>.json   one record per image, written when everything it needs is on disk
//! layers/<hex of the chain id>  an unpacked layer: `fs` and `layer.json`; renamed into place when complete
//! blobs/<hex>                   manifests and configurations; compressed layers until they are unpacked
//! staging/                      incomplete content; removed when no pull runs
//! roots/<container>             writable layer and mount of a container, with `root.json`
//! ```
//!
//! Several processes may use one store. `lock` orders changes of the records and the removal of content; `use.lock` is
//! held shared by each pull or import, so that content that no record names yet is not removed.

mod blobs;
mod collection;
mod disk;
mod import;
mod layers;
mod lock;
mod mapped_layers;
mod overlay;
mod records;
mod roots;
mod usage;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use blobs::{BlobStore, Ingest};
pub use disk::StoreError;
pub use import::Imported;
pub(crate) use layers::LayerSource;
pub(crate) use lock::FileLock;
pub use records::StoredImage;
pub(crate) use records::{Record, RecordedLayer};
pub use usage::DiskUsage;

use super::digest::Digest;
use super::extract::Limits;
use super::reference::Reference;
use disk::Folders;
use records::Records;

/// Images and the root file systems made from them. Methods block on the disk; cloning is cheap.
#[derive(Clone, Debug)]
pub struct ImageStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folders: Folders,
    records: Records,
    limits: Limits,
    /// Images that are never removed on request of the node agent: exact references, or prefixes that end with `*`.
    pinned: Vec<String>,
    /// Prefix of the folders of this runtime's roots.
    owner_prefix: String,
}

impl ImageStore {
    /// Opens the store in `folder`, which is created if missing, and removes what a crash left behind.
    pub fn open(folder: &Path, pinned: Vec<String>) -> Result<Self, StoreError> {
        Self::open_with(folder, pinned, String::new())
    }

    /// Opens the store of another runtime as a guest, whose roots are separate. The name distinguishes guests.
    pub fn open_as_guest(folder: &Path, guest: &str) -> Result<Self, StoreError> {
        Self::open_with(folder, Vec::new(), roots::guest_prefix(guest)?)
    }

    fn open_with(folder: &Path, pinned: Vec<String>, owner_prefix: String) -> Result<Self, StoreError> {
        let folders = Folders::make(folder)?;
        let records = Records::new(folders.clone());
        let inner = Inner { folders, records, limits: Limits::default(), pinned, owner_prefix };
        let store = Self { inner: Arc::new(inner) };
        store.collect()?;
        Ok(store)
    }

    /// The folder of the store.
    pub fn folder(&self) -> &Path {
        self.inner.folders.root()
    }

    /// Finds an image by reference, id, or the unique beginning of an id.
    pub fn resolve(&self, reference_or_id: &str) -> Result<Option<StoredImage>, StoreError> {
        let found = self.find(reference_or_id)?;
        Ok(found.map(|record| self.published(&record)))
    }

    /// All images, ordered by id.
    pub fn list(&self) -> Result<Vec<StoredImage>, StoreError> {
        Ok(self.inner.records.all()?.iter().map(|record| self.published(record)).collect())
    }

    /// Removes an image with all its names. Content that a container or another image uses stays until they are gone.
    /// Returns whether the image existed.
    pub fn remove(&self, reference_or_id: &str) -> Result<bool, StoreError> {
        let removed = {
            let _lock = self.lock()?;
            let Some(record) = self.find(reference_or_id)? else { return Ok(false) };
            self.inner.records.remove(&record.id)?
        };
        self.collect()?;
        Ok(removed)
    }

    fn find(&self, reference_or_id: &str) -> Result<Option<Arc<Record>>, StoreError> {
        let records = self.inner.records.all()?;
        if let Ok(reference) = Reference::parse(reference_or_id) {
            let name = reference.text();
            let named =
                records.iter().find(|record| record.tags.contains(&name) || record.digests.contains(&name));
            if named.is_some() {
                return Ok(named.cloned());
            }
        }
        let prefix = reference_or_id.strip_prefix("sha256:").unwrap_or(reference_or_id);
        if prefix.is_empty() {
            return Ok(None);
        }
        let mut matching = records.iter().filter(|record| record.id.hex().starts_with(prefix));
        match (matching.next(), matching.next()) {
            (Some(_), Some(_)) => Err(StoreError::AmbiguousId(reference_or_id.to_owned())),
            (first, _) => Ok(first.cloned()),
        }
    }

    /// Adds an image whose content is on disk, or new names to one. A tag that another image had moves to this one.
    pub(crate) fn commit(&self, record: Record) -> Result<StoredImage, StoreError> {
        let _lock = self.lock()?;
        let record = self.inner.records.put(record)?;
        Ok(self.published(&record))
    }

    pub(crate) fn blobs(&self) -> BlobStore {
        BlobStore::new(self.inner.folders.clone())
    }

    /// Keeps content that no record names yet from being removed.
    pub(crate) fn begin_use(&self) -> Result<FileLock, StoreError> {
        FileLock::shared(&self.inner.folders.use_lock())
    }

    pub(crate) fn has_layer(&self, chain_id: &Digest) -> bool {
        self.inner.folders.layer(chain_id).join(layers::RECORD).exists()
    }

    /// Unpacks a layer on top of `lower` (chain ids, the bottom one first). Does nothing if the store has it.
    pub(crate) fn unpack(
        &self,
        source: LayerSource<'_>,
        lower: &[RecordedLayer],
    ) -> Result<RecordedLayer, StoreError> {
        layers::unpack(&self.inner.folders, source, lower, self.inner.limits)
    }

    fn lock(&self) -> Result<FileLock, StoreError> {
        FileLock::exclusive(&self.inner.folders.lock())
    }

    fn published(&self, record: &Record) -> StoredImage {
        let pinned =
            record.tags.iter().chain(&record.digests).any(|name| is_pinned(&self.inner.pinned, name));
        record.published(pinned)
    }

    fn layer_roots(&self, record: &Record) -> Vec<PathBuf> {
        // Overlayfs wants the top layer first.
        record
            .layers
            .iter()
            .rev()
            .map(|layer| self.inner.folders.layer(&layer.chain_id).join(layers::FILES))
            .collect()
    }
}

fn is_pinned(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => Reference::parse(pattern).is_ok_and(|reference| reference.text() == name),
    })
}

#[cfg(test)]
mod tests;
