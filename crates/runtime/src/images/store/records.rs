//! The records of images: their names, content and configuration.

use std::fs;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::disk::{Folders, OnPath, StoreError, names, write_json};
use crate::images::digest::Digest;
use crate::images::manifest::ImageConfig;

const VERSION: u32 = 1;

/// An image in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredImage {
    /// Digest of the configuration.
    pub id: Digest,
    /// Full references with a tag.
    pub tags: Vec<String>,
    /// Full references with a digest.
    pub digests: Vec<String>,
    /// Bytes of manifest, configuration and compressed layers.
    pub size: u64,
    pub config: ImageConfig,
    pub pinned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(default)]
    pub(crate) version: u32,
    pub(crate) id: Digest,
    pub(crate) tags: Vec<String>,
    pub(crate) digests: Vec<String>,
    pub(crate) size: u64,
    pub(crate) config: ImageConfig,
    /// The bottom one first.
    pub(crate) layers: Vec<RecordedLayer>,
    /// Blobs that the record needs: manifest and configuration.
    pub(crate) blobs: Vec<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedLayer {
    pub(crate) diff_id: Digest,
    pub(crate) chain_id: Digest,
}

impl Record {
    pub(super) fn published(&self, pinned: bool) -> StoredImage {
        StoredImage {
            id: self.id.clone(),
            tags: self.tags.clone(),
            digests: self.digests.clone(),
            size: self.size,
            config: self.config.clone(),
            pinned,
        }
    }

    /// Adds the names and content of an older record of the same image.
    fn merge(&mut self, older: &Self) {
        let add = |to: &mut Vec<String>, from: &[String]| {
            to.extend(from.iter().cloned());
            to.sort_unstable();
            to.dedup();
        };
        add(&mut self.tags, &older.tags);
        add(&mut self.digests, &older.digests);
        self.blobs.extend(older.blobs.iter().cloned());
        self.blobs.sort_unstable();
        self.blobs.dedup();
    }
}

/// The records on disk, cached until a process changes one.
#[derive(Debug)]
pub(super) struct Records {
    folders: Folders,
    cache: Mutex<Option<Cached>>,
}

#[derive(Clone, Debug)]
struct Cached {
    /// Time of the folder: each change renames a file in it, or removes one.
    changed: SystemTime,
    records: Vec<Arc<Record>>,
}

impl Records {
    pub(super) fn new(folders: Folders) -> Self {
        Self { folders, cache: Mutex::new(None) }
    }

    /// All records, ordered by id. A record that a newer release wrote, or that is damaged, is an error.
    pub(super) fn all(&self) -> Result<Vec<Arc<Record>>, StoreError> {
        let folder = self.folders.images();
        // Read before the files: a change during the reading makes the cache stale, not wrong.
        let changed =
            fs::metadata(&folder).and_then(|metadata| metadata.modified()).on_path("stat", &folder)?;
        let cached = self.cache.lock().clone();
        if let Some(cached) = cached.filter(|cached| cached.changed == changed) {
            return Ok(cached.records);
        }
        let mut records = Vec::new();
        for name in names(&folder)? {
            if let Some(hex) = name.strip_suffix(".json")
                && let Ok(id) = Digest::from_hex(hex)
                && let Some(record) = self.read(&id)?
            {
                records.push(Arc::new(record));
            }
        }
        *self.cache.lock() = Some(Cached { changed, records: records.clone() });
        Ok(records)
    }

    /// Writes a record, with the names of an older one of the image. The caller has the store's lock.
    pub(super) fn put(&self, mut record: Record) -> Result<Arc<Record>, StoreError> {
        for other in self.all()? {
            if other.id == record.id {
                record.merge(&other);
            } else if other.tags.iter().any(|tag| record.tags.contains(tag)) {
                let mut other = Record::clone(&other);
                other.tags.retain(|tag| !record.tags.contains(tag));
                self.write(&other)?;
            }
        }
        record.version = VERSION;
        self.write(&record)?;
        Ok(Arc::new(record))
    }

    /// Returns whether the record existed. The caller has the store's lock.
    pub(super) fn remove(&self, id: &Digest) -> Result<bool, StoreError> {
        let path = self.path(id);
        self.forget();
        match fs::remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            result => result.on_path("remove", &path).map(|()| true),
        }
    }

    fn read(&self, id: &Digest) -> Result<Option<Record>, StoreError> {
        let path = self.path(id);
        let content = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            content => content.on_path("read", &path)?,
        };
        let record: Record =
            serde_json::from_slice(&content).map_err(std::io::Error::from).on_path("parse", &path)?;
        if record.version > VERSION {
            let error = std::io::Error::other("a newer release wrote this record");
            return Err(error).on_path("read", &path);
        }
        Ok(Some(record))
    }

    fn write(&self, record: &Record) -> Result<(), StoreError> {
        self.forget();
        write_json(&self.folders, &self.path(&record.id), record)
    }

    /// The time of a folder has the resolution of the kernel's clock tick, which two changes can share.
    fn forget(&self) {
        *self.cache.lock() = None;
    }

    fn path(&self, id: &Digest) -> std::path::PathBuf {
        self.folders.images().join(format!("{}.json", id.hex()))
    }
}
