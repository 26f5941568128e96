//! Blobs by digest. A blob gets its name after its size and digest were verified.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::disk::{Folders, OnPath, StoreError, move_into_place};
use super::lock::FileLock;
use crate::images::digest::{Digest, Hashing};
use crate::images::manifest::{Descriptor, MAX_DOCUMENT_SIZE, ManifestError};

#[derive(Clone, Debug)]
pub(crate) struct BlobStore {
    folders: Folders,
}

impl BlobStore {
    pub(super) fn new(folders: Folders) -> Self {
        Self { folders }
    }

    pub(crate) fn has(&self, descriptor: &Descriptor) -> bool {
        fs::metadata(self.folders.blob(&descriptor.digest)).is_ok_and(|file| file.len() == descriptor.size)
    }

    pub(crate) fn open(&self, digest: &Digest) -> Result<File, StoreError> {
        let path = self.folders.blob(digest);
        File::open(&path).on_path("open blob", &path)
    }

    /// Reads a manifest or configuration, and verifies it again: the disk may have changed it.
    pub(crate) fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>, StoreError> {
        let path = self.folders.blob(&descriptor.digest);
        let content = read_bounded(self.open(&descriptor.digest)?).on_path("read", &path)?;
        verify("document", descriptor, &content)?;
        Ok(content)
    }

    /// Stores a manifest or configuration that was read into memory.
    pub(crate) fn put_document(&self, content: &[u8]) -> Result<Digest, StoreError> {
        let size = content.len() as u64;
        if size > MAX_DOCUMENT_SIZE {
            return Err(ManifestError::TooLarge { what: "document", size }.into());
        }
        let digest = Digest::of(content);
        super::disk::write_file(&self.folders, &self.folders.blob(&digest), content)?;
        Ok(digest)
    }

    /// Begins or continues to write a blob. Waits while another pull writes it; `None` if it is complete then.
    pub(crate) fn ingest(&self, descriptor: &Descriptor) -> Result<Option<Ingest>, StoreError> {
        let lock =
            FileLock::exclusive(&self.folders.staging().join(format!("{}.lock", descriptor.digest.hex())))?;
        if self.has(descriptor) {
            return Ok(None);
        }
        let path = self.folders.staging().join(format!("{}.part", descriptor.digest.hex()));
        let open =
            || OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let mut file = open().on_path("create blob", &path)?;
        // The bytes of an interrupted download are hashed again, which also moves to their end.
        let mut hashing = Hashing::new(io::sink());
        io::copy(&mut (&mut file).take(descriptor.size), &mut hashing).on_path("read", &path)?;
        file.set_len(hashing.count()).on_path("truncate", &path)?;
        Ok(Some(Ingest {
            writer: Some((file, hashing)),
            target: self.folders.blob(&descriptor.digest),
            descriptor: descriptor.clone(),
            path,
            _lock: lock,
        }))
    }
}

/// A blob that is being written.
#[derive(Debug)]
pub(crate) struct Ingest {
    writer: Option<(File, Hashing<io::Sink>)>,
    descriptor: Descriptor,
    path: PathBuf,
    target: PathBuf,
    _lock: FileLock,
}

impl Ingest {
    /// Number of bytes that are on disk.
    pub(crate) fn offset(&self) -> u64 {
        self.writer.as_ref().map_or(0, |(_, hashing)| hashing.count())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let size = self.offset().saturating_add(bytes.len() as u64);
        if size > self.descriptor.size {
            return Err(self.wrong_size(size));
        }
        let Some((file, hashing)) = &mut self.writer else { return Ok(()) };
        file.write_all(bytes).and_then(|()| hashing.write_all(bytes)).on_path("write", &self.path)
    }

    /// Drops the bytes on disk, because the server cannot continue.
    pub(crate) fn restart(&mut self) -> Result<(), StoreError> {
        let Some((mut file, _)) = self.writer.take() else { return Ok(()) };
        file.set_len(0).and_then(|()| io::Seek::rewind(&mut file)).on_path("truncate", &self.path)?;
        self.writer = Some((file, Hashing::new(io::sink())));
        Ok(())
    }

    /// Verifies the blob and gives it its name. A wrong one is removed.
    pub(crate) fn commit(mut self) -> Result<(), StoreError> {
        let size = self.offset();
        let Some((file, hashing)) = self.writer.take() else { return Ok(()) };
        let result = if size == self.descriptor.size {
            same_digest("blob", &self.descriptor.digest, hashing.into_digest())
        } else {
            Err(self.wrong_size(size))
        };
        if let Err(error) = result {
            let _ = fs::remove_file(&self.path);
            return Err(error);
        }
        file.sync_data().on_path("flush", &self.path)?;
        move_into_place(&self.path, &self.target)
    }

    fn wrong_size(&self, actual: u64) -> StoreError {
        let Descriptor { digest, size, .. } = &self.descriptor;
        StoreError::WrongSize { what: "blob", digest: digest.clone(), expected: *size, actual }
    }
}

/// Fails unless the content has the size and digest of its descriptor.
pub(crate) fn verify(what: &'static str, descriptor: &Descriptor, content: &[u8]) -> Result<(), StoreError> {
    let actual = content.len() as u64;
    if actual != descriptor.size {
        let (digest, expected) = (descriptor.digest.clone(), descriptor.size);
        return Err(StoreError::WrongSize { what, digest, expected, actual });
    }
    same_digest(what, &descriptor.digest, Digest::of(content))
}

pub(super) fn same_digest(what: &'static str, expected: &Digest, actual: Digest) -> Result<(), StoreError> {
    if *expected == actual {
        return Ok(());
    }
    Err(StoreError::WrongDigest { what, expected: expected.clone(), actual })
}

/// At most one byte more than the limit, so that the caller notices a longer document.
pub(super) fn read_bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(MAX_DOCUMENT_SIZE + 1).read_to_end(&mut content)?;
    Ok(content)
}
