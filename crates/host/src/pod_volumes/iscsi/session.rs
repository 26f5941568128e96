//! Logging in to a target and out of it.

mod interface;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{Chap, IscsiDisk, OwnInitiator, VolumeSecret};
use serde_json::{Value, json};

use crate::helper::{self, Ended};
use crate::scsi_disks::ScsiDisks;

const HELPER_DEADLINE: Duration = Duration::from_secs(30);
/// How long portals that do not answer are tried while another one does.
const LONGEST_SEARCH: Duration = Duration::from_secs(60);
/// How long several ways to a disk may take to become one device.
const MULTIPATH_DEADLINE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// `iscsiadm` says so when there is such a session, or interface, already.
const EXISTS: &str = "exit status 15";
/// `iscsiadm` says so when there is no such session or record.
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

/// What a session needs; nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    name: String,
    portals: Vec<String>,
    pub(super) target: String,
    interface: String,
    initiator: Option<OwnInitiator>,
    pub(super) lun: i32,
}

/// What sessions are made with.
pub(super) struct Tools<'a> {
    pub(super) program: &'a OsStr,
    pub(super) disks: &'a ScsiDisks,
    /// How long a device may take to show up after the login.
    pub(super) patience: Duration,
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

    /// In the form of upstream's `iscsi.json`.
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

    /// Logs in at the portals, where that is not done, and finds the disk.
    pub(super) fn log_in(&self, tools: &Tools<'_>, chap: &Chap) -> Result<PathBuf, String> {
        let secret = secret(chap)?;
        let transport = interface::transport(self, tools.program)?;
        if self.initiator.is_some() {
            interface::clone(self, tools.program)?;
        }
        let began = Instant::now();
        let mut found: BTreeMap<&str, PathBuf> = BTreeMap::new();
        let mut problem = String::new();
        for attempt in 1.. {
            for portal in &self.portals {
                if found.contains_key(portal.as_str()) {
                    continue;
                }
                match self.reach(tools, portal, chap, &secret, &transport) {
                    Ok(device) => drop(found.insert(portal, device)),
                    Err(error) => problem = error,
                }
            }
            let in_time = began.elapsed() < LONGEST_SEARCH;
            if is_enough(found.len(), self.portals.len(), attempt) || !in_time {
                break;
            }
        }
        let Some(first) = found.values().next() else {
            if self.initiator.is_some() {
                interface::delete(self, tools.program);
            }
            return Err(format!("failed to get any path for iscsi disk, last err seen:\n{problem}"));
        };
        let patience = if self.portals.len() > 1 { MULTIPATH_DEADLINE } else { Duration::ZERO };
        let joined = wait(patience, || found.values().find_map(|device| tools.disks.multipath(device)));
        Ok(joined.unwrap_or_else(|| first.clone()))
    }

    /// The disk by one portal.
    fn reach(
        &self,
        tools: &Tools<'_>,
        portal: &str,
        chap: &Chap,
        secret: &BTreeMap<String, String>,
        transport: &str,
    ) -> Result<PathBuf, String> {
        let known = tools.disks.portals(&self.target).get(portal).copied();
        let host = match known {
            Some(host) => host,
            None => {
                self.log_in_at(tools.program, portal, chap, secret)?;
                let hosts = tools.disks.portals(&self.target);
                hosts.get(portal).copied().ok_or_else(|| {
                    format!("Could not get SCSI host number for portal {portal} after logging in")
                })?
            }
        };
        let scanned = tools.disks.scan_for(host, self.lun);
        scanned.map_err(|error| format!("scan of SCSI host {host} failed: {error}"))?;
        let name = format!("ip-{}-iscsi-{}-lun-{}", portal.replace(['[', ']'], ""), self.target, self.lun);
        let devices = tools.disks.by_path();
        wait(tools.patience, || find(&devices, &name, transport)).ok_or_else(|| {
            format!(
                "Timed out waiting for device at path {} after {}s (is udev running, and does the target offer LUN {}?)",
                devices.join(name).display(),
                tools.patience.as_secs(),
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
        let found = |step: &[&str]| -> Vec<String> {
            let all = ["-m", "discoverydb", "-t", "sendtargets", "-p", portal, "-I", &self.interface];
            all.into_iter().chain(step.iter().copied()).map(str::to_owned).collect()
        };
        // There may be one of an earlier login.
        let _ = run(program, &found(&["-o", "new"]));
        if chap.discovery {
            let told = |key: &str, value: &str| found(&["-o", "update", "-n", key, "-v", value]);
            let method = "discovery.sendtargets.auth.authmethod";
            identify(program, told, method, DISCOVERY_KEYS, secret).map_err(|problem| {
                format!("iscsi: failed to update discoverydb to portal {portal} error: {problem}")
            })?;
        }
        let discovered = run(program, &found(&["--discover"]));
        if let Some(failure) = discovered.failure {
            let _ = run(program, &found(&["-o", "delete"]));
            let output = discovered.output.trim();
            return Err(format!(
                "iscsi: failed to sendtargets to portal {portal} output: {output}, err {failure}"
            ));
        }
        let told = |key: &str, value: &str| self.node(portal, &["-o", "update", "-n", key, "-v", value]);
        // Only the disk that is wanted is looked for. Old versions do not know how to leave the others.
        let _ = run(program, &told("node.session.scan", "manual"));
        if chap.session {
            let method = "node.session.auth.authmethod";
            identify(program, told, method, SESSION_KEYS, secret).map_err(|problem| {
                format!("iscsi: failed to update iscsi node to portal {portal} error: {problem}")
            })?;
        }
        let ended = run(program, &self.node(portal, &["--login"]));
        if let Some(failure) = ended.failure.filter(|failure| failure != EXISTS) {
            let _ = run(program, &self.node(portal, &["-o", "delete"]));
            return Err(format!("iscsi: failed to attach disk: Error: {} ({failure})", ended.output.trim()));
        }
        // Otherwise a machine that boots without its network waits for it.
        let _ = run(program, &told("node.startup", "manual"));
        Ok(())
    }

    /// Logs out at every portal and forgets them.
    pub(super) fn log_out(&self, program: &OsStr) -> Result<(), String> {
        for portal in &self.portals {
            for step in [&["--logout"][..], &["-o", "delete"]] {
                let ended = run(program, &self.node(portal, step));
                if let Some(failure) = ended.failure.filter(|failure| !is_gone(failure)) {
                    return Err(format!(
                        "iscsi: failed to detach disk: Error: {} ({failure})",
                        ended.output.trim()
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

    fn node(&self, portal: &str, step: &[&str]) -> Vec<String> {
        ["-m", "node", "-p", portal, "-T", &self.target, "-I", &self.interface]
            .into_iter()
            .chain(step.iter().copied())
            .map(str::to_owned)
            .collect()
    }
}

/// Whether so many ways to a disk will do after so many attempts: all; two, once the others were tried again; at last any.
fn is_enough(found: usize, wanted: usize, attempt: u32) -> bool {
    found == 0 || found >= wanted || found >= 2 && attempt >= 2 || attempt >= 5
}

/// What is shown to the target.
fn secret(chap: &Chap) -> Result<BTreeMap<String, String>, String> {
    match &chap.secret {
        VolumeSecret::Given(content) => Ok(content.clone()),
        VolumeSecret::NotNeeded => Ok(BTreeMap::new()),
        VolumeSecret::Missing(reason) => Err(reason.clone()),
        VolumeSecret::Wanted(reference) => {
            Err(format!("couldn't get secret {}/{}", reference.namespace, reference.name))
        }
    }
}

/// Writes down who logs in.
fn identify(
    program: &OsStr,
    told: impl Fn(&str, &str) -> Vec<String>,
    method: &str,
    keys: [&str; 4],
    secret: &BTreeMap<String, String>,
) -> Result<(), String> {
    let ended = run(program, &told(method, "CHAP"));
    if ended.failure.is_some() {
        return Err(format!("iscsi: failed to update {method} with CHAP, output: {}", ended.output.trim()));
    }
    for key in keys {
        let Some(value) = secret.get(key).filter(|value| !value.is_empty()) else { continue };
        let ended = run(program, &told(key, value));
        if ended.failure.is_some() {
            return Err(format!("iscsi: failed to update key {key:?} error: {}", ended.output.trim()));
        }
    }
    Ok(())
}

/// Hardware initiators have their PCI address before the name.
fn find(devices: &Path, name: &str, transport: &str) -> Option<PathBuf> {
    let is_it = |entry: &str| {
        let is_hardware = transport != "tcp";
        if is_hardware {
            entry.starts_with("pci-") && entry.ends_with(&format!("-{name}"))
        } else {
            entry == name
        }
    };
    let mut entries = std::fs::read_dir(devices).ok()?.filter_map(Result::ok);
    let entry = entries.find(|entry| entry.file_name().to_str().is_some_and(is_it))?;
    // A link to a device that went does not count.
    entry.path().canonicalize().ok()
}

/// Looks until there is something, at least once.
fn wait<T>(patience: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if began.elapsed() >= patience {
            return None;
        }
        look_again_later();
    }
}

#[expect(clippy::disallowed_methods, reason = "volumes are set up on threads that may block")]
fn look_again_later() {
    std::thread::sleep(LOOK_AGAIN);
}

/// Who has no `iscsiadm` never logged in by it.
fn is_gone(failure: &str) -> bool {
    NOTHING_FOUND.contains(&failure) || failure.contains(helper::NOT_INSTALLED)
}

fn run(program: &OsStr, words: &[impl AsRef<str>]) -> Ended {
    let arguments: Vec<OsString> = words.iter().map(|word| word.as_ref().into()).collect();
    helper::run(program, &arguments, HELPER_DEADLINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portals_that_do_not_answer_are_tried_again_for_a_while() {
        for (found, wanted, attempt, expected) in [
            (1, 1, 1, true),
            (0, 2, 1, true),
            (1, 2, 1, false),
            (1, 2, 4, false),
            (1, 2, 5, true),
            (2, 3, 1, false),
            (2, 3, 2, true),
            (3, 3, 1, true),
        ] {
            assert_eq!(is_enough(found, wanted, attempt), expected, "{found} of {wanted}, {attempt}");
        }
    }

    #[test]
    fn the_record_says_what_to_log_out_of() {
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
