//! The file `dra_health_state`, in upstream's format. It has no checksum: a file that cannot be read is ignored.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{ClaimDeviceHealth, Timestamp};
use serde::Deserialize;

use super::device_health::{DeviceHealthTable, ReportedHealth};
use crate::go_text::{JsonObject, json_string};

#[must_use]
pub fn encode(table: &DeviceHealthTable) -> Vec<u8> {
    let drivers = table.drivers.iter().map(|(driver, devices)| {
        let devices = devices.iter().map(|(key, device)| (key.as_str(), encode_device(device)));
        let mut state = JsonObject::default();
        state.value("Devices", &JsonObject::of(devices));
        (driver.as_str(), state.finish())
    });
    JsonObject::of(drivers).into_bytes()
}

fn encode_device(device: &ReportedHealth) -> String {
    let timeout = i64::try_from(device.timeout.as_nanos()).unwrap_or(i64::MAX);
    let mut object = JsonObject::default();
    object
        .value("PoolName", &json_string(&device.pool))
        .value("DeviceName", &json_string(&device.device))
        .value("Health", &json_string(device.health.as_str()))
        .value("LastUpdated", &json_string(&device.reported_at.to_rfc3339()))
        .value("HealthCheckTimeout", &timeout.to_string())
        .value("Message", &json_string(&device.message));
    object.finish()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct DriverRow {
    devices: Option<BTreeMap<String, DeviceRow>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct DeviceRow {
    pool_name: String,
    device_name: String,
    health: String,
    last_updated: String,
    health_check_timeout: i64,
    message: String,
}

/// # Errors
/// When the file is not JSON of this format.
pub fn decode(content: &[u8]) -> Result<DeviceHealthTable, serde_json::Error> {
    let rows: BTreeMap<String, DriverRow> = serde_json::from_slice(content)?;
    let drivers = rows.into_iter().map(|(driver, row)| {
        let devices = row.devices.into_iter().flatten().map(|(_, device)| decode_device(device));
        let devices = devices.map(|device| (format!("{}/{}", device.pool, device.device), device));
        (driver, devices.collect())
    });
    Ok(DeviceHealthTable { drivers: drivers.collect() })
}

/// A time that cannot be read is long ago, so that the report has expired.
fn decode_device(row: DeviceRow) -> ReportedHealth {
    let time = row.last_updated.parse::<jiff::Timestamp>();
    let nanos = time.ok().and_then(|time| i64::try_from(time.as_nanosecond()).ok());
    ReportedHealth {
        pool: row.pool_name,
        device: row.device_name,
        health: match row.health.as_str() {
            "Healthy" => ClaimDeviceHealth::Healthy,
            "Unhealthy" => ClaimDeviceHealth::Unhealthy,
            _ => ClaimDeviceHealth::Unknown,
        },
        reported_at: Timestamp::from_nanos(nanos.unwrap_or_default()),
        timeout: Duration::from_nanos(u64::try_from(row.health_check_timeout).unwrap_or_default()),
        message: row.message,
    }
}
