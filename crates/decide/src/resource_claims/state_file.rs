//! The file `dra_manager_state`, in upstream's format, so that a node can switch between this agent and the kubelet.

use std::collections::BTreeMap;

use model::{PodUid, PreparedDevice};
use serde::Deserialize;
use values::crc32::crc32;

use super::{ClaimKey, PreparedClaim, PreparedClaims};
use crate::go_text::{JsonObject, json_array, json_string};

/// Why a state file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateFileError {
    /// Upstream's text.
    #[error("checkpoint is corrupted")]
    Checksum,
    #[error("{0}")]
    Unreadable(String),
}

#[must_use]
pub fn encode(claims: &PreparedClaims) -> Vec<u8> {
    let entries = claims.claims.iter().map(|(key, claim)| encode_claim(key, claim));
    let mut data = JsonObject::default();
    data.value("kind", "\"DRACheckpoint\"")
        .value("apiVersion", "\"checkpoint.dra.kubelet.k8s.io/v1\"")
        .value("ClaimInfoStateList", &list(entries));
    let data = data.finish();
    let mut file = JsonObject::default();
    file.value("Data", &json_string(&data)).value("Checksum", &crc32(data.as_bytes()).to_string());
    file.finish().into_bytes()
}

fn encode_claim(key: &ClaimKey, claim: &PreparedClaim) -> String {
    let pods = claim.pods.iter().map(|uid| (uid.as_str(), "{}".to_owned()));
    let drivers = claim.drivers.iter().map(|(driver, devices)| {
        let mut state = JsonObject::default();
        state.value("Devices", &list(devices.iter().map(encode_device)));
        (driver.as_str(), state.finish())
    });
    let mut object = JsonObject::default();
    object
        .value("ClaimUID", &json_string(&claim.uid))
        .value("ClaimName", &json_string(&key.name))
        .value("Namespace", &json_string(&key.namespace))
        .value("PodUIDs", &JsonObject::of(pods))
        .value("DriverState", &JsonObject::of(drivers));
    object.finish()
}

fn encode_device(device: &PreparedDevice) -> String {
    let texts = |texts: &[String]| list(texts.iter().map(|text| json_string(text)));
    let share = device.share_id.as_deref().map_or_else(|| "null".to_owned(), json_string);
    let mut object = JsonObject::default();
    object
        .value("PoolName", &json_string(&device.pool))
        .value("DeviceName", &json_string(&device.device))
        .value("ShareID", &share)
        .value("RequestNames", &texts(&device.requests))
        .value("CDIDeviceIDs", &texts(&device.cdi_ids));
    object.finish()
}

/// Go writes an empty list as null.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut items = items.peekable();
    match items.peek() {
        Some(_) => json_array(items),
        None => "null".to_owned(),
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "Data")]
    data: String,
    #[serde(rename = "Checksum")]
    checksum: u32,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "ClaimInfoStateList", default)]
    claims: Option<Vec<ClaimRow>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ClaimRow {
    #[serde(rename = "ClaimUID")]
    uid: String,
    #[serde(rename = "ClaimName")]
    name: String,
    namespace: String,
    #[serde(rename = "PodUIDs")]
    pods: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    #[serde(rename = "DriverState")]
    drivers: Option<BTreeMap<String, DriverRow>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct DriverRow {
    devices: Option<Vec<DeviceRow>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct DeviceRow {
    pool_name: String,
    device_name: String,
    #[serde(rename = "ShareID")]
    share_id: Option<String>,
    request_names: Option<Vec<String>>,
    #[serde(rename = "CDIDeviceIDs")]
    cdi_ids: Option<Vec<String>>,
}

/// # Errors
/// When the file is damaged.
pub fn decode(content: &[u8]) -> Result<PreparedClaims, StateFileError> {
    let unreadable = |error: serde_json::Error| StateFileError::Unreadable(error.to_string());
    let file: File = serde_json::from_slice(content).map_err(unreadable)?;
    if crc32(file.data.as_bytes()) != file.checksum {
        return Err(StateFileError::Checksum);
    }
    let data: Data = serde_json::from_str(&file.data).map_err(unreadable)?;
    let claims = data.claims.into_iter().flatten().map(|row| {
        let key = ClaimKey { namespace: row.namespace, name: row.name };
        let device = |device: DeviceRow| PreparedDevice {
            pool: device.pool_name,
            device: device.device_name,
            share_id: device.share_id,
            requests: device.request_names.unwrap_or_default(),
            cdi_ids: device.cdi_ids.unwrap_or_default(),
        };
        let drivers = row
            .drivers
            .into_iter()
            .flatten()
            .map(|(driver, state)| (driver, state.devices.into_iter().flatten().map(device).collect()));
        let claim = PreparedClaim {
            uid: row.uid,
            pods: row.pods.into_iter().flatten().map(|(uid, _)| PodUid::from(uid.as_str())).collect(),
            drivers: drivers.collect(),
            is_prepared: false,
        };
        (key, claim)
    });
    Ok(PreparedClaims { claims: claims.collect() })
}
