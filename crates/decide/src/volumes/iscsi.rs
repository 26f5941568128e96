//! Disks of iSCSI targets.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{ISCSIPersistentVolumeSource, ISCSIVolumeSource};
use model::{IscsiDisk, VolumePlan};

const PORT: &str = "3260";
const INTERFACE: &str = "default";
const FILE_SYSTEM: &str = "ext4";

/// What both sources have in common.
struct Source<'a> {
    portals: Vec<&'a str>,
    target: &'a str,
    lun: i32,
    interface: Option<&'a str>,
    fs_type: Option<&'a str>,
    initiator: Option<&'a str>,
    chap: bool,
}

/// The plan of a volume in a pod's spec.
///
/// # Errors
/// When the source asks for what is not done here.
pub(super) fn inline(source: &ISCSIVolumeSource, path: PathBuf) -> Result<VolumePlan, String> {
    let common = Source {
        portals: portals(&source.target_portal, source.portals.as_deref()),
        target: &source.iqn,
        lun: source.lun,
        interface: source.iscsi_interface.as_deref(),
        fs_type: source.fs_type.as_deref(),
        initiator: source.initiator_name.as_deref(),
        chap: source.chap_auth_discovery == Some(true) || source.chap_auth_session == Some(true),
    };
    plan(&common, path, source.read_only == Some(true), Vec::new())
}

/// The plan of a PersistentVolume.
///
/// # Errors
/// When the source asks for what is not done here.
pub(super) fn persistent(
    source: &ISCSIPersistentVolumeSource,
    path: PathBuf,
    read_only: bool,
    options: Vec<String>,
) -> Result<VolumePlan, String> {
    let common = Source {
        portals: portals(&source.target_portal, source.portals.as_deref()),
        target: &source.iqn,
        lun: source.lun,
        interface: source.iscsi_interface.as_deref(),
        fs_type: source.fs_type.as_deref(),
        initiator: source.initiator_name.as_deref(),
        chap: source.chap_auth_discovery == Some(true) || source.chap_auth_session == Some(true),
    };
    plan(&common, path, read_only || source.read_only == Some(true), options)
}

fn plan(
    source: &Source<'_>,
    path: PathBuf,
    read_only: bool,
    options: Vec<String>,
) -> Result<VolumePlan, String> {
    // A password that is not shown, or an initiator that is not the one asked for, would be a login as somebody else.
    if source.chap {
        return Err("iscsi: CHAP (chapAuthDiscovery, chapAuthSession) is not supported".to_owned());
    }
    if source.initiator.is_some_and(|name| !name.is_empty()) {
        return Err("iscsi: an initiatorName of the volume's own is not supported; use the node's".to_owned());
    }
    let given = |text: Option<&str>, default: &str| {
        text.filter(|text| !text.is_empty()).unwrap_or(default).to_owned()
    };
    let interface = given(source.interface, INTERFACE);
    let portals: Vec<String> = source.portals.iter().map(|portal| with_port(portal)).collect();
    // They become names of folders and arguments of programs.
    for word in portals.iter().map(String::as_str).chain([source.target, interface.as_str()]) {
        if word.is_empty() || word.starts_with(['-', '.']) || word.contains(['/', '\0']) {
            return Err(format!("iscsi: {word:?} is no portal, target or interface"));
        }
    }
    Ok(VolumePlan::Iscsi(IscsiDisk {
        path,
        portals,
        target: source.target.to_owned(),
        lun: source.lun,
        interface,
        fs_type: given(source.fs_type, FILE_SYSTEM),
        read_only,
        options,
    }))
}

fn portals<'a>(first: &'a str, others: Option<&'a [String]>) -> Vec<&'a str> {
    std::iter::once(first).chain(others.unwrap_or_default().iter().map(String::as_str)).collect()
}

/// As upstream: a portal without any colon gets the port.
fn with_port(portal: &str) -> String {
    if portal.contains(':') { portal.to_owned() } else { format!("{portal}:{PORT}") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn planned(extra: &Value) -> Result<IscsiDisk, String> {
        let mut source = json!({"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:disk", "lun": 2});
        if let (Some(source), Some(extra)) = (source.as_object_mut(), extra.as_object()) {
            source.extend(extra.clone());
        }
        match inline(&serde_json::from_value(source).unwrap(), PathBuf::from("/v"))? {
            VolumePlan::Iscsi(disk) => Ok(disk),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_said_has_upstreams_defaults() {
        let disk = planned(&json!({"portals": ["10.0.0.2:99"]})).unwrap();
        assert_eq!(disk.portals, ["10.0.0.1:3260", "10.0.0.2:99"]);
        assert_eq!((disk.lun, disk.interface.as_str(), disk.fs_type.as_str()), (2, "default", "ext4"));
        assert!(!disk.read_only);
        let disk = planned(&json!({"fsType": "xfs", "iscsiInterface": "iser", "readOnly": true})).unwrap();
        assert_eq!((disk.interface.as_str(), disk.fs_type.as_str(), disk.read_only), ("iser", "xfs", true));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (extra, part) in [
            (json!({"chapAuthSession": true}), "CHAP"),
            (json!({"chapAuthDiscovery": true}), "CHAP"),
            (json!({"initiatorName": "iqn.x"}), "initiatorName"),
            (json!({"targetPortal": "../../etc"}), "is no portal"),
            (json!({"targetPortal": "-x"}), "is no portal"),
            (json!({"iscsiInterface": "a/b"}), "is no portal"),
        ] {
            assert!(planned(&extra).unwrap_err().contains(part), "{extra}");
        }
    }
}
