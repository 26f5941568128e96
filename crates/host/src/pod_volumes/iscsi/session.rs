//! Logging in to a target and out of it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::IscsiDisk;
use ports::pod_volumes::VolumeError;
use serde_json::{Value, json};

use crate::helper::{self, Ended};

const HELPER_DEADLINE: Duration = Duration::from_secs(30);
/// How long a device may take to show up after the login.
const DEVICE_DEADLINE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// `iscsiadm` says so when there is such a session already.
const SESSION_EXISTS: &str = "exit status 15";
/// `iscsiadm` says so when there is no such session or record.
const NOTHING_FOUND: &str = "exit status 21";

/// What a session needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) portals: Vec<String>,
    pub(super) target: String,
    pub(super) interface: String,
    lun: i32,
}

impl Login {
    pub(super) fn of(disk: &IscsiDisk) -> Self {
        Self {
            portals: disk.portals.clone(),
            target: disk.target.clone(),
            interface: disk.interface.clone(),
            lun: disk.lun,
        }
    }

    /// In the form of upstream's `iscsi.json`.
    pub(super) fn write(&self) -> Vec<u8> {
        let record = json!({
            "VolName": "", "Portals": self.portals, "Iqn": self.target, "Lun": self.lun.to_string(),
            "InitIface": self.interface, "Iface": self.interface, "InitiatorName": "", "MetricsProvider": null,
        });
        record.to_string().into_bytes()
    }

    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(content).ok()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let portals =
            value.get("Portals")?.as_array()?.iter().map(|portal| portal.as_str().map(str::to_owned));
        Some(Self {
            portals: portals.collect::<Option<_>>()?,
            target: text("Iqn")?,
            interface: text("Iface")?,
            lun: text("Lun")?.parse().ok()?,
        })
    }

    /// Logs in at every portal; one that works is enough.
    pub(super) fn log_in(&self, program: &OsStr) -> Result<(), VolumeError> {
        let shown = run(program, &["-m", "iface", "-I", &self.interface, "-o", "show"]);
        if let Some(failure) = &shown.failure {
            return Err(VolumeError::Refused(format!(
                "iscsi: could not read iface {}: {failure}: {}{}",
                self.interface,
                shown.output.trim(),
                hint(failure)
            )));
        }
        let mut problem = None;
        let mut logged_in = false;
        for portal in &self.portals {
            match self.log_in_at(program, portal) {
                Ok(()) => logged_in = true,
                Err(error) => problem = Some(error),
            }
        }
        match problem {
            Some(error) if !logged_in => Err(VolumeError::Refused(error)),
            Some(_) | None => Ok(()),
        }
    }

    fn log_in_at(&self, program: &OsStr, portal: &str) -> Result<(), String> {
        let found = |step: &str| -> Vec<String> {
            ["-m", "discoverydb", "-t", "sendtargets", "-p", portal, "-I", &self.interface]
                .into_iter()
                .map(str::to_owned)
                .chain(step.split(' ').map(str::to_owned))
                .collect()
        };
        // There may be one of an earlier login.
        let _ = run(program, &found("-o new"));
        let discovered = run(program, &found("--discover"));
        if let Some(failure) = discovered.failure {
            let _ = run(program, &found("-o delete"));
            let output = discovered.output.trim();
            return Err(format!(
                "iscsi: failed to sendtargets to portal {portal} output: {output}, err {failure}"
            ));
        }
        let ended = run(program, &self.node(portal, &["--login"]));
        match ended.failure.as_deref() {
            None => {
                // Otherwise a machine that boots without its network waits for it.
                let _ =
                    run(program, &self.node(portal, &["-o", "update", "-n", "node.startup", "-v", "manual"]));
                Ok(())
            }
            // The session is another disk's: the target is asked for this one.
            Some(SESSION_EXISTS) => {
                let _ = run(program, &self.node(portal, &["--rescan"]));
                Ok(())
            }
            Some(failure) => {
                let _ = run(program, &self.node(portal, &["-o", "delete"]));
                Err(format!("iscsi: failed to attach disk: Error: {} ({failure})", ended.output.trim()))
            }
        }
    }

    /// Logs out at every portal and forgets them.
    pub(super) fn log_out(&self, program: &OsStr) -> Result<(), VolumeError> {
        for portal in &self.portals {
            let ended = run(program, &self.node(portal, &["--logout"]));
            if let Some(failure) = ended.failure.filter(|failure| failure != NOTHING_FOUND) {
                return Err(VolumeError::Refused(format!(
                    "iscsi: failed to detach disk: Error: {} ({failure})",
                    ended.output.trim()
                )));
            }
            let _ = run(program, &self.node(portal, &["-o", "delete"]));
        }
        Ok(())
    }

    /// The device of a disk, once the kernel and udev have made it.
    pub(super) fn wait_for_device(&self, devices: &Path, lun: i32) -> Result<PathBuf, VolumeError> {
        let names: Vec<String> = self
            .portals
            .iter()
            .map(|portal| format!("ip-{}-iscsi-{}-lun-{lun}", portal.replace(['[', ']'], ""), self.target))
            .collect();
        let began = Instant::now();
        loop {
            if let Some(device) = find(devices, &names) {
                return Ok(device);
            }
            if began.elapsed() >= DEVICE_DEADLINE {
                let name = names.first().map_or("", String::as_str);
                return Err(VolumeError::Refused(format!(
                    "iscsi: timed out waiting for device {} (is udev running, and does the target offer LUN {lun}?)",
                    devices.join(name).display()
                )));
            }
            look_again_later();
        }
    }

    fn node(&self, portal: &str, step: &[&str]) -> Vec<String> {
        ["-m", "node", "-p", portal, "-T", &self.target, "-I", &self.interface]
            .into_iter()
            .chain(step.iter().copied())
            .map(str::to_owned)
            .collect()
    }
}

/// Hardware initiators have their PCI address before the name.
fn find(devices: &Path, names: &[String]) -> Option<PathBuf> {
    let entries = std::fs::read_dir(devices).ok()?.filter_map(Result::ok);
    let is_it = |entry: &str| {
        names
            .iter()
            .any(|name| entry == name || entry.starts_with("pci-") && entry.ends_with(&format!("-{name}")))
    };
    let entry = entries.into_iter().find(|entry| entry.file_name().to_str().is_some_and(is_it))?;
    // A link to a device that went does not count.
    entry.path().canonicalize().ok()
}

#[expect(clippy::disallowed_methods, reason = "volumes are set up on threads that may block")]
fn look_again_later() {
    std::thread::sleep(LOOK_AGAIN);
}

fn run(program: &OsStr, words: &[impl AsRef<str>]) -> Ended {
    let arguments: Vec<OsString> = words.iter().map(|word| word.as_ref().into()).collect();
    helper::run(program, &arguments, HELPER_DEADLINE)
}

fn hint(failure: &str) -> &'static str {
    if failure.contains("executable file not found") {
        "; install the package open-iscsi (Debian, Ubuntu) or iscsi-initiator-utils (Fedora, RHEL) on the node"
    } else {
        ""
    }
}
