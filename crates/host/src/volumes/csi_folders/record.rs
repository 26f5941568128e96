//! Reads and writes `vol_data.json` in upstream's format.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;

use model::CsiLifecycle;
use ports::host::csi_folders::{StagingRecord, VolumeRecord};
use ports::host::pod_folders::FileError;
use sha2::{Digest, Sha256};

use crate::errors::OnPath;
use crate::files::atomic_file::{self, Durability};
use crate::files::folder::Folder;

pub(super) const RECORD_FILE: &str = "vol_data.json";
/// Omitted without a label, like upstream.
const LABEL_KEY: &str = "seLinuxMountContext";
const MODE: u32 = 0o600;

pub(super) fn staging_name(handle: &str) -> String {
    Sha256::digest(handle).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the record of a pod's volume.
pub(super) fn write_record(folder: &Folder, record: &VolumeRecord) -> Result<(), FileError> {
    let lifecycle = match record.lifecycle {
        CsiLifecycle::Persistent => "Persistent",
        CsiLifecycle::Ephemeral => "Ephemeral",
    };
    let fields = BTreeMap::from([
        ("specVolID", record.spec_name.as_str()),
        ("volumeHandle", &record.handle),
        ("driverName", &record.driver),
        ("nodeName", &record.node),
        ("attachmentID", &record.attachment),
        ("volumeLifecycleMode", lifecycle),
    ]);
    write(folder, fields, record.label.as_deref())
}

/// Writes the record of a staged volume.
pub(super) fn write_staging_record(folder: &Folder, record: &VolumeRecord) -> Result<(), FileError> {
    let fields = [("volumeHandle", record.handle.as_str()), ("driverName", &record.driver)];
    write(folder, fields.into(), record.label.as_deref())
}

fn write<'a>(
    folder: &Folder,
    mut fields: BTreeMap<&'a str, &'a str>,
    label: Option<&'a str>,
) -> Result<(), FileError> {
    fields.extend(label.map(|label| (LABEL_KEY, label)));
    let mut text = serde_json::to_vec(&fields)
        .map_err(io::Error::from)
        .on_path("write record", folder.path().join(RECORD_FILE))?;
    text.push(b'\n');
    // The driver is called next: a machine crash must not lose the only record of the volume.
    atomic_file::replace(folder, OsStr::new(RECORD_FILE), &text, MODE, Durability::Flushed)
}

/// `None` if there is no record.
pub(super) fn read_record(folder: &Folder) -> Result<Option<VolumeRecord>, FileError> {
    let Some(text) = read(folder)? else { return Ok(None) };
    parse(&text).map(Some).map_err(io::Error::from).on_path("read record", folder.path().join(RECORD_FILE))
}

/// Fails only if the file exists and cannot be read.
pub(super) fn read_staging_record(folder: &Folder) -> Result<StagingRecord, FileError> {
    let Some(text) = read(folder)? else { return Ok(StagingRecord::Missing) };
    Ok(parse(&text).map_or(StagingRecord::Corrupt, StagingRecord::Read))
}

fn read(folder: &Folder) -> Result<Option<Vec<u8>>, FileError> {
    folder.read_file(OsStr::new(RECORD_FILE), "read record")
}

fn parse(text: &[u8]) -> serde_json::Result<VolumeRecord> {
    let fields: BTreeMap<String, String> = serde_json::from_slice(text)?;
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    Ok(VolumeRecord {
        spec_name: field("specVolID"),
        handle: field("volumeHandle"),
        driver: field("driverName"),
        node: field("nodeName"),
        attachment: field("attachmentID"),
        lifecycle: match field("volumeLifecycleMode").as_str() {
            "Ephemeral" => CsiLifecycle::Ephemeral,
            // Records of block volumes have no such field.
            _ => CsiLifecycle::Persistent,
        },
        label: fields.get(LABEL_KEY).filter(|label| !label.is_empty()).cloned(),
    })
}
