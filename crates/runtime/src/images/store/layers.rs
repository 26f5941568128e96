//! Unpacked layers.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::blobs::same_digest;
use super::disk::{Folders, OnPath, StoreError, make_folder, move_into_place, remove};
use super::records::RecordedLayer;
use crate::images::decompress::decompress;
use crate::images::digest::{Digest, Hashing};
use crate::images::extract::{Extracted, Limits, extract};
use crate::images::manifest::Descriptor;

pub(super) const FILES: &str = "fs";
pub(super) const RECORD: &str = "layer.json";
const BUFFER: usize = 256 * 1024;

/// A compressed layer.
pub(crate) struct LayerSource<'a> {
    pub(crate) content: &'a mut dyn Read,
    /// Verified while unpacking; `None` if the content was verified before.
    pub(crate) verify: Option<&'a Descriptor>,
    pub(crate) diff_id: &'a Digest,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LayerRecord {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

/// Unpacks a layer into a staging folder, verifies it, and renames the folder into place.
pub(super) fn unpack(
    folders: &Folders,
    source: LayerSource<'_>,
    lower: &[RecordedLayer],
    limits: Limits,
) -> Result<RecordedLayer, StoreError> {
    let diff_id = source.diff_id.clone();
    let chain_id = Digest::chained(lower.last().map(|layer| &layer.chain_id), &diff_id);
    let target = folders.layer(&chain_id);
    let layer = RecordedLayer { diff_id, chain_id };
    if target.join(RECORD).exists() {
        return Ok(layer);
    }
    let staged = folders.staged();
    make_folder(&staged, 0o700)?;
    let unpacked =
        unpack_into(folders, source, lower, limits, &staged).and_then(|()| move_layer(&staged, &target));
    if unpacked.is_err() {
        let _ = remove(&staged);
    }
    unpacked.map(|()| layer)
}

fn unpack_into(
    folders: &Folders,
    source: LayerSource<'_>,
    lower: &[RecordedLayer],
    limits: Limits,
    staged: &Path,
) -> Result<(), StoreError> {
    let digest = source.verify.map_or(source.diff_id, |descriptor| &descriptor.digest).to_string();
    let files = staged.join(FILES);
    make_folder(&files, 0o755)?;
    let lower: Vec<PathBuf> =
        lower.iter().rev().map(|layer| folders.layer(&layer.chain_id).join(FILES)).collect();
    let mut compressed = Hashing::new(source.content);
    let decompress_error = |source| StoreError::Decompress { digest: digest.clone(), source };
    let (extracted, actual) = {
        let buffered = BufReader::with_capacity(BUFFER, &mut compressed);
        let hashing = Hashing::new(decompress(buffered).map_err(decompress_error)?);
        let (extracted, mut hashing) = extract(hashing, &files, &lower, limits)
            .map_err(|source| StoreError::Unpack { digest: digest.clone(), source })?;
        // The digest includes what follows the end of the archive; bounded like the content.
        let rest = io::copy(&mut (&mut hashing).take(limits.bytes), &mut io::sink());
        rest.map_err(decompress_error)?;
        (extracted, hashing.into_digest())
    };
    if let Some(descriptor) = source.verify {
        verify_compressed(compressed, descriptor)?;
    }
    same_digest("uncompressed layer", source.diff_id, actual)?;
    finish(staged, extracted)
}

fn verify_compressed<R: Read>(mut compressed: Hashing<R>, descriptor: &Descriptor) -> Result<(), StoreError> {
    let mut rest = (&mut compressed).take(descriptor.size.saturating_add(1));
    io::copy(&mut rest, &mut io::sink())
        .map_err(|source| StoreError::Decompress { digest: descriptor.digest.to_string(), source })?;
    let actual = compressed.count();
    if actual != descriptor.size {
        let (digest, expected) = (descriptor.digest.clone(), descriptor.size);
        return Err(StoreError::WrongSize { what: "layer", digest, expected, actual });
    }
    same_digest("layer", &descriptor.digest, compressed.into_digest())
}

/// Writes the record of the layer, and flushes everything to disk before the rename makes it visible.
fn finish(staged: &Path, extracted: Extracted) -> Result<(), StoreError> {
    let path = staged.join(RECORD);
    let record = LayerRecord { bytes: extracted.bytes, entries: extracted.entries };
    let content = serde_json::to_vec(&record).map_err(io::Error::from).on_path("encode", &path)?;
    fs::write(&path, content).on_path("write", &path)?;
    let folder = File::open(staged).on_path("open", staged)?;
    rustix::fs::syncfs(&folder).on_path("flush", staged)
}

fn move_layer(staged: &Path, target: &Path) -> Result<(), StoreError> {
    let moved = move_into_place(staged, target);
    // Another pull was faster; its layer has the same content.
    if moved.is_err() && target.join(RECORD).exists() {
        return remove(staged);
    }
    moved
}

pub(super) fn read_record(folder: &Path) -> Option<LayerRecord> {
    serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()
}
