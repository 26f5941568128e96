//! iSCSI sessions.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{ScsiDisks, names, starts_with};

struct Session {
    host: u32,
    folder: PathBuf,
}

impl ScsiDisks {
    /// SCSI host numbers by portal of a target.
    pub(crate) fn portals(&self, target: &str) -> BTreeMap<String, u32> {
        let mut portals = BTreeMap::new();
        for session in self.sessions(target) {
            for name in names(&session.folder).iter().filter(|name| starts_with(name, "connection")) {
                let connection = session.folder.join(name).join("iscsi_connection").join(name);
                for kind in ["", "persistent_"] {
                    let address = text(&connection.join(format!("{kind}address")));
                    let port = text(&connection.join(format!("{kind}port")));
                    if let (Some(address), Some(port)) = (address, port) {
                        portals.insert(portal(&address, &port), session.host);
                    }
                }
            }
        }
        portals
    }

    /// The devices of a LUN, one per path.
    pub(crate) fn disks(&self, target: &str, lun: i32) -> Vec<OsString> {
        let found = self.sessions(target).into_iter().filter_map(|Session { host, folder }| {
            let unit = folder.join(format!("target{host}:0:0")).join(format!("{host}:0:0:{lun}"));
            names(&unit.join("block")).into_iter().next()
        });
        found.collect()
    }

    fn sessions(&self, target: &str) -> Vec<Session> {
        let hosts = self.kernel.join("class/iscsi_host");
        let mut sessions = Vec::new();
        for name in names(&hosts) {
            let number = name.to_str().and_then(|name| name.strip_prefix("host")?.parse().ok());
            let Some(host) = number else { continue };
            let device = hosts.join(&name).join("device");
            for session in names(&device).into_iter().filter(|name| starts_with(name, "session")) {
                let folder = device.join(&session);
                let named = text(&folder.join("iscsi_session").join(&session).join("targetname"));
                if named.as_deref() == Some(target) {
                    sessions.push(Session { host, folder });
                }
            }
        }
        sessions
    }
}

fn portal(address: &str, port: &str) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn text(file: &Path) -> Option<String> {
    Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
}
