//! The health of devices, as drivers report it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::{ClaimDeviceHealth, DeviceHealthReport, Timestamp};

/// Same as upstream.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_MESSAGE_BYTES: usize = 1024;
const CUT_MARK: &str = "...";

/// A device of a driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceName {
    pub driver: String,
    pub pool: String,
    pub device: String,
}

/// The last report about a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedHealth {
    pub pool: String,
    pub device: String,
    pub health: ClaimDeviceHealth,
    pub reported_at: Timestamp,
    /// Time for which the report counts.
    pub timeout: Duration,
    pub message: String,
}

impl ReportedHealth {
    fn of(report: DeviceHealthReport, now: Timestamp) -> Self {
        let timeout = match u64::try_from(report.timeout_seconds) {
            Ok(0) | Err(_) => DEFAULT_TIMEOUT,
            Ok(seconds) => Duration::from_secs(seconds),
        };
        Self {
            pool: report.pool,
            device: report.device,
            health: report.health,
            reported_at: now,
            timeout,
            message: cut(report.message),
        }
    }

    fn says_the_same(&self, other: &Self) -> bool {
        (self.health, self.timeout, &self.message) == (other.health, other.timeout, &other.message)
    }

    fn expires_at(&self) -> Timestamp {
        self.reported_at.after(self.timeout)
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        now > self.expires_at()
    }
}

/// Limits a text of a driver, which ends up in the status of pods.
fn cut(mut message: String) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES - CUT_MARK.len()));
        message.push_str(CUT_MARK);
    }
    message
}

/// The last reports about all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceHealthTable {
    /// By driver, and by pool and device with a slash between them.
    pub(super) drivers: BTreeMap<String, BTreeMap<String, ReportedHealth>>,
}

impl DeviceHealthTable {
    /// Records the reports of a driver, and returns the devices for which they say something new. Devices that are missing
    /// keep their last report until it expires.
    pub fn update(
        &mut self,
        driver: &str,
        reports: Vec<DeviceHealthReport>,
        now: Timestamp,
    ) -> BTreeSet<DeviceName> {
        let own = self.drivers.entry(driver.to_owned()).or_default();
        let mut changed = BTreeSet::new();
        for report in reports {
            let new = ReportedHealth::of(report, now);
            let key = format!("{}/{}", new.pool, new.device);
            if own.get(&key).is_none_or(|known| !known.says_the_same(&new)) {
                changed.insert(name(driver, &new));
            }
            own.insert(key, new);
        }
        changed
    }

    /// Makes devices unknown whose reports have expired, and returns them.
    pub fn expire(&mut self, now: Timestamp) -> BTreeSet<DeviceName> {
        let mut changed = BTreeSet::new();
        for (driver, devices) in &mut self.drivers {
            let known = devices.values_mut().filter(|own| own.health != ClaimDeviceHealth::Unknown);
            for device in known.filter(|own| own.is_expired(now)) {
                device.health = ClaimDeviceHealth::Unknown;
                device.message.clear();
                changed.insert(name(driver, device));
            }
        }
        changed
    }

    /// When the next report expires.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let known = self.drivers.values().flat_map(BTreeMap::values);
        let known = known.filter(|own| own.health != ClaimDeviceHealth::Unknown);
        known.map(ReportedHealth::expires_at).min()
    }

    /// Forgets a driver, and returns its devices.
    pub fn erase(&mut self, driver: &str) -> BTreeSet<DeviceName> {
        let devices = self.drivers.remove(driver).unwrap_or_default();
        devices.values().map(|device| name(driver, device)).collect()
    }

    /// The health of a device with the driver's message. Without a report that still counts it is unknown.
    #[must_use]
    pub fn health(&self, device: &DeviceName, now: Timestamp) -> (ClaimDeviceHealth, &str) {
        let key = format!("{}/{}", device.pool, device.device);
        let known = self.drivers.get(&device.driver).and_then(|devices| devices.get(&key));
        match known.filter(|known| !known.is_expired(now)) {
            Some(known) => (known.health, &known.message),
            None => (ClaimDeviceHealth::Unknown, ""),
        }
    }
}

fn name(driver: &str, device: &ReportedHealth) -> DeviceName {
    DeviceName { driver: driver.to_owned(), pool: device.pool.clone(), device: device.device.clone() }
}
