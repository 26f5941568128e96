//! Logs in to iSCSI targets and out of them.

mod interface;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{Chap, IscsiDisk, OwnInitiator};
use serde_json::{Value, json};

use super::Initiator;
use crate::helper_program::{self, Arguments, HelperOutcome};
use crate::volumes::scsi_disks::wait_for;
use crate::volumes::secret_content;

const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long failing portals are retried while another portal works.
const PORTAL_RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long several paths to a disk may take to become a multipath device.
const MULTIPATH_TIMEOUT: Duration = Duration::from_secs(10);
/// Exit status of `iscsiadm` if the session or interface exists.
const EXISTS: &str = "exit status 15";
/// Exit statuses of `iscsiadm` if there is no such session or record.
const NOTHING_FOUND: [&str; 2] = ["exit status 2", "exit status 21"];
const DISCOVERY_KEYS: [&str; 4] = [
    "discovery.sendtargets.auth.username",
    "discovery.sendtargets.auth.password",
    "discovery.sendtargets.auth.username_in",
    "discovery.sendtargets.auth.password_in",
];
const SESSION_KEYS: [&str; 4] = [
    "node.session.auth.username",
    "node.session.auth.password",
    "node.session.auth.username_in",
    "node.session.auth.password_in",
];

/// Parameters of a session, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    name: String,
    portals: Vec<String>,
    pub(super) target: String,
    interface: String,
    initiator: Option<OwnInitiator>,
    pub(super) lun: i32,
}

impl Login {
    pub(super) fn of(disk: &IscsiDisk) -> Self {
        let mut portals: Vec<String> = Vec::new();
        for portal in disk.portals.iter().filter(|portal| !portal.is_empty()) {
            if !portals.contains(portal) {
                portals.push(portal.clone());
            }
        }
        Self {
            name: disk.name.clone(),
            portals,
            target: disk.target.clone(),
            interface: disk.interface.clone(),
            initiator: disk.initiator.clone(),
            lun: disk.lun,
        }
    }

    /// Encodes in the format of upstream's `iscsi.json`.
    pub(super) fn write(&self) -> Vec<u8> {
        let own = self.initiator.as_ref();
        let record = json!({
            "VolName": self.name, "Portals": self.portals, "Iqn": self.target, "Lun": self.lun.to_string(),
            "InitIface": own.map_or(&self.interface, |own| &own.model), "Iface": self.interface,
            "InitiatorName": own.map_or("", |own| own.name.as_str()), "MetricsProvider": null,
        });
        record.to_string().into_bytes()
    }

    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(content).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let portals =
            value.get("Portals")?.as_array()?.iter().map(|portal| portal.as_str().map(str::to_owned));
        let initiator = text("InitiatorName").filter(|name| !name.is_empty());
        Some(Self {
            name: text("VolName").unwrap_or_default(),
            portals: portals.collect::<Option<_>>()?,
            target: text("Iqn")?,
            interface: text("Iface")?,
            initiator: initiator
                .map(|name| OwnInitiator { name, model: text("InitIface").unwrap_or_default() }),
            lun: text("Lun")?.parse().ok()?,
        })
    }

    /// Logs in to the portals without a session, and finds the disk.
    pub(super) fn log_in(&self, initiator: &Initiator, chap: &Chap) -> Result<PathBuf, String> {
        let secret = secret_content(&chap.secret)?;
        let transport = interface::transport(self, &initiator.program)?;
        if self.initiator.is_some() {
            interface::create(self, &initiator.program)?;
        }
        let start = Instant::now();
        let mut found: BTreeMap<&str, PathBuf> = BTreeMap::new();
        let mut last_error = String::new();
        for attempt in 1.. {
            for portal in &self.portals {
                if found.contains_key(portal.as_str()) {
                    continue;
                }
                match self.find_through(initiator, portal, chap, &secret, &transport) {
                    Ok(device) => drop(found.insert(portal, device)),
                    Err(error) => last_error = error,
                }
            }
            let in_time = start.elapsed() < PORTAL_RETRY_TIMEOUT;
            if is_enough(found.len(), self.portals.len(), attempt) || !in_time {
                break;
            }
        }
        let Some(first) = found.values().next() else {
            if self.initiator.is_some() {
                interface::delete(self, &initiator.program);
            }
            return Err(format!("failed to get any path for iscsi disk, last err seen:\n{last_error}"));
        };
        let timeout = if self.portals.len() > 1 { MULTIPATH_TIMEOUT } else { Duration::ZERO };
        let multipath =
            wait_for(timeout, || found.values().find_map(|device| initiator.disks.multipath(device)));
        Ok(multipath.unwrap_or_else(|| first.clone()))
    }

    /// The device of the disk through one portal.
    fn find_through(
        &self,
        initiator: &Initiator,
        portal: &str,
        chap: &Chap,
        secret: &BTreeMap<String, String>,
        transport: &str,
    ) -> Result<PathBuf, String> {
        let session_host = initiator.disks.portals(&self.target).get(portal).copied();
        let host = match session_host {
            Some(host) => host,
            None => {
                self.log_in_at(&initiator.program, portal, chap, secret)?;
                let hosts = initiator.disks.portals(&self.target);
                hosts.get(portal).copied().ok_or_else(|| {
                    format!("Could not get SCSI host number for portal {portal} after logging in")
                })?
            }
        };
        let scanned = initiator.disks.scan_for(host, self.lun);
        scanned.map_err(|error| format!("scan of SCSI host {host} failed: {error}"))?;
        let name = format!("ip-{}-iscsi-{}-lun-{}", portal.replace(['[', ']'], ""), self.target, self.lun);
        let devices = initiator.disks.by_path();
        wait_for(initiator.attach_timeout, || find_device(&devices, &name, transport)).ok_or_else(|| {
            format!(
                "Timed out waiting for device at path {} after {}s (is udev running, and does the target offer LUN {}?)",
                devices.join(name).display(),
                initiator.attach_timeout.as_secs(),
                self.lun
            )
        })
    }

    fn log_in_at(
        &self,
        program: &OsStr,
        portal: &str,
        chap: &Chap,
        secret: &BTreeMap<String, String>,
    ) -> Result<(), String> {
        let discovery = |step: &[&'static str]| {
            Arguments::new(&["-m", "discoverydb", "-t", "sendtargets"])
                .value("-p", portal)
                .value("-I", &self.interface)
                .words(step)
        };
        // A record of an earlier login may exist.
        let _ = run(program, &discovery(&["-o", "new"]));
        if chap.discovery {
            let update =
                |key: &str, value: &str| discovery(&["-o", "update"]).value("-n", key).value("-v", value);
            let method = "discovery.sendtargets.auth.authmethod";
            set_credentials(program, update, method, DISCOVERY_KEYS, secret).map_err(|error| {
                format!("iscsi: failed to update discoverydb to portal {portal} error: {error}")
            })?;
        }
        let discovered = run(program, &discovery(&["--discover"]));
        if let Some(failure) = discovered.failure {
            let _ = run(program, &discovery(&["-o", "delete"]));
            let output = discovered.output.trim();
            return Err(format!(
                "iscsi: failed to sendtargets to portal {portal} output: {output}, err {failure}"
            ));
        }
        let update =
            |key: &str, value: &str| self.node(portal, &["-o", "update"]).value("-n", key).value("-v", value);
        // Scan for the requested LUN only. Old versions lack this setting.
        let _ = run(program, &update("node.session.scan", "manual"));
        if chap.session {
            let method = "node.session.auth.authmethod";
            set_credentials(program, update, method, SESSION_KEYS, secret).map_err(|error| {
                format!("iscsi: failed to update iscsi node to portal {portal} error: {error}")
            })?;
        }
        let outcome = run(program, &self.node(portal, &["--login"]));
        if let Some(failure) = outcome.failure.filter(|failure| failure != EXISTS) {
            let _ = run(program, &self.node(portal, &["-o", "delete"]));
            return Err(format!(
                "iscsi: failed to attach disk: Error: {} ({failure})",
                outcome.output.trim()
            ));
        }
        // Otherwise a boot without network waits for the target.
        let _ = run(program, &update("node.startup", "manual"));
        Ok(())
    }

    /// Logs out of every portal and deletes their records.
    pub(super) fn log_out(&self, program: &OsStr) -> Result<(), String> {
        for portal in &self.portals {
            for step in [&["--logout"][..], &["-o", "delete"]] {
                let outcome = run(program, &self.node(portal, step));
                if let Some(failure) = outcome.failure.filter(|failure| !is_missing(failure)) {
                    return Err(format!(
                        "iscsi: failed to detach disk: Error: {} ({failure})",
                        outcome.output.trim()
                    ));
                }
            }
        }
        let first = self.portals.first().map_or("", String::as_str);
        if self.initiator.is_some() && self.interface == format!("{first}:{}", self.name) {
            interface::delete(self, program);
        }
        Ok(())
    }

    fn node(&self, portal: &str, step: &[&'static str]) -> Arguments {
        Arguments::new(&["-m", "node"])
            .value("-p", portal)
            .value("-T", &self.target)
            .value("-I", &self.interface)
            .words(step)
    }
}

/// Whether the paths found suffice: all portals, two after a second attempt, or any after the fifth. Also if none was
/// found, because then the login has failed.
fn is_enough(found: usize, total: usize, attempt: u32) -> bool {
    found == 0 || found >= total || found >= 2 && attempt >= 2 || attempt >= 5
}

/// Stores the CHAP credentials in a record.
fn set_credentials(
    program: &OsStr,
    update: impl Fn(&str, &str) -> Arguments,
    method: &str,
    keys: [&str; 4],
    secret: &BTreeMap<String, String>,
) -> Result<(), String> {
    let outcome = run(program, &update(method, "CHAP"));
    if outcome.failure.is_some() {
        return Err(format!("iscsi: failed to update {method} with CHAP, output: {}", outcome.output.trim()));
    }
    for key in keys {
        let Some(value) = secret.get(key).filter(|value| !value.is_empty()) else { continue };
        let outcome = run(program, &update(key, value));
        if outcome.failure.is_some() {
            return Err(format!("iscsi: failed to update key {key:?} error: {}", outcome.output.trim()));
        }
    }
    Ok(())
}

/// Finds the device link. With a hardware initiator its name has a PCI address as prefix.
fn find_device(devices: &Path, name: &str, transport: &str) -> Option<PathBuf> {
    let matches = |entry: &str| {
        let is_hardware = transport != "tcp";
        if is_hardware {
            entry.starts_with("pci-") && entry.ends_with(&format!("-{name}"))
        } else {
            entry == name
        }
    };
    let mut entries = std::fs::read_dir(devices).ok()?.filter_map(Result::ok);
    let entry = entries.find(|entry| entry.file_name().to_str().is_some_and(matches))?;
    // Skip links to removed devices.
    entry.path().canonicalize().ok()
}

/// Whether there was nothing to log out of. Without `iscsiadm` there was no login.
fn is_missing(failure: &str) -> bool {
    NOTHING_FOUND.contains(&failure) || failure.contains(helper_program::NOT_INSTALLED)
}

fn run(program: &OsStr, arguments: &Arguments) -> HelperOutcome {
    helper_program::run(program, arguments, HELPER_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_failing_portals_for_a_while() {
        for (found, total, attempt, expected) in [
            (1, 1, 1, true),
            (0, 2, 1, true),
            (1, 2, 1, false),
            (1, 2, 4, false),
            (1, 2, 5, true),
            (2, 3, 1, false),
            (2, 3, 2, true),
            (3, 3, 1, true),
        ] {
            assert_eq!(is_enough(found, total, attempt), expected, "{found} of {total}, {attempt}");
        }
    }

    #[test]
    fn record_restores_the_login() {
        let login = Login {
            name: "pv".into(),
            portals: vec!["10.0.0.1:3260".into()],
            target: "iqn.a".into(),
            interface: "10.0.0.1:3260:pv".into(),
            initiator: Some(OwnInitiator { name: "iqn.own".into(), model: "default".into() }),
            lun: 3,
        };
        assert_eq!(Login::read(&login.write()), Some(login));
    }
}
