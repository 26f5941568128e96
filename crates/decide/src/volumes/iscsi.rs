//! iSCSI volumes.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{ISCSIPersistentVolumeSource, ISCSIVolumeSource};
use model::{Chap, DiskUse, IscsiDisk, OwnInitiator, SecretReference, VolumePlan, VolumeSecret};

const PORT: &str = "3260";
const INTERFACE: &str = "default";
const FILE_SYSTEM: &str = "ext4";

/// The fields that inline and persistent sources have in common.
struct Source<'a> {
    portals: Vec<&'a str>,
    target: &'a str,
    lun: i32,
    interface: Option<&'a str>,
    initiator: Option<&'a str>,
    chap: Chap,
}

/// Properties from the pod and its volume.
pub(super) struct VolumeProperties<'a> {
    pub(super) path: PathBuf,
    pub(super) name: &'a str,
    /// Default namespace of secrets.
    pub(super) namespace: &'a str,
    pub(super) use_as: DiskUse,
    pub(super) read_only: bool,
}

/// Plans an inline volume.
///
/// # Errors
/// When the source is invalid.
pub(super) fn inline(
    source: &ISCSIVolumeSource,
    properties: VolumeProperties<'_>,
) -> Result<VolumePlan, String> {
    let secret = source.secret_ref.as_ref().map(|reference| (None, reference.name.as_str()));
    let common = Source {
        portals: portals(&source.target_portal, source.portals.as_deref()),
        target: &source.iqn,
        lun: source.lun,
        interface: source.iscsi_interface.as_deref(),
        initiator: source.initiator_name.as_deref(),
        chap: chap(source.chap_auth_discovery, source.chap_auth_session, secret, properties.namespace),
    };
    let read_only = source.read_only == Some(true);
    plan(&common, VolumeProperties { read_only, ..properties })
}

/// Plans a PersistentVolume.
///
/// # Errors
/// When the source is invalid.
pub(super) fn persistent(
    source: &ISCSIPersistentVolumeSource,
    properties: VolumeProperties<'_>,
) -> Result<VolumePlan, String> {
    let secret = source.secret_ref.as_ref();
    let secret = secret
        .map(|reference| (reference.namespace.as_deref(), reference.name.as_deref().unwrap_or_default()));
    let common = Source {
        portals: portals(&source.target_portal, source.portals.as_deref()),
        target: &source.iqn,
        lun: source.lun,
        interface: source.iscsi_interface.as_deref(),
        initiator: source.initiator_name.as_deref(),
        chap: chap(source.chap_auth_discovery, source.chap_auth_session, secret, properties.namespace),
    };
    let read_only = properties.read_only || source.read_only == Some(true);
    plan(&common, VolumeProperties { read_only, ..properties })
}

pub(super) fn as_files(fs_type: Option<&str>, options: Vec<String>) -> DiskUse {
    DiskUse::Files { fs_type: given(fs_type, FILE_SYSTEM), options }
}

fn chap(
    discovery: Option<bool>,
    session: Option<bool>,
    secret: Option<(Option<&str>, &str)>,
    namespace: &str,
) -> Chap {
    let (discovery, session) = (discovery == Some(true), session == Some(true));
    let named = secret.filter(|(_, name)| (discovery || session) && !name.is_empty());
    let secret = named.map_or(VolumeSecret::NotNeeded, |(own, name)| {
        VolumeSecret::Requested(SecretReference { namespace: given(own, namespace), name: name.to_owned() })
    });
    Chap { discovery, session, secret }
}

fn given(text: Option<&str>, default: &str) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or(default).to_owned()
}

fn plan(source: &Source<'_>, properties: VolumeProperties<'_>) -> Result<VolumePlan, String> {
    let base = given(source.interface, INTERFACE);
    let portals: Vec<String> = source.portals.iter().map(|portal| with_port(portal)).collect();
    let initiator = source.initiator.filter(|name| !name.is_empty());
    // They are used as folder names and program arguments.
    let words = portals.iter().map(String::as_str).chain([source.target, base.as_str()]).chain(initiator);
    for word in words {
        if word.is_empty() || word.starts_with(['-', '.']) || word.contains(['/', '\0']) {
            return Err(format!("iscsi: {word:?} is no portal, target, interface or initiator"));
        }
    }
    let first = portals.first().map_or("", String::as_str);
    let (interface, initiator) = match initiator {
        Some(name) => (
            format!("{first}:{}", properties.name),
            Some(OwnInitiator { name: name.to_owned(), model: base }),
        ),
        None => (base, None),
    };
    Ok(VolumePlan::Iscsi(Box::new(IscsiDisk {
        path: properties.path,
        name: properties.name.to_owned(),
        portals,
        target: source.target.to_owned(),
        lun: source.lun,
        interface,
        initiator,
        chap: source.chap.clone(),
        attachment: format!(
            "kubernetes.io/iscsi/{}:{}:{}",
            source.portals.first().unwrap_or(&""),
            source.target,
            source.lun
        ),
        use_as: properties.use_as,
        read_only: properties.read_only,
    })))
}

fn portals<'a>(first: &'a str, others: Option<&'a [String]>) -> Vec<&'a str> {
    std::iter::once(first).chain(others.unwrap_or_default().iter().map(String::as_str)).collect()
}

/// Like upstream: only a portal without a colon gets the default port.
fn with_port(portal: &str) -> String {
    if portal.contains(':') { portal.to_owned() } else { format!("{portal}:{PORT}") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TARGET: &str = "iqn.2001-04.com.example:disk";

    fn properties() -> VolumeProperties<'static> {
        let use_as = as_files(None, vec![]);
        VolumeProperties { path: "/v".into(), name: "data", namespace: "own", use_as, read_only: false }
    }

    fn source(extra: &Value) -> Value {
        let mut source = json!({"targetPortal": "10.0.0.1", "iqn": TARGET, "lun": 2});
        if let (Some(source), Some(extra)) = (source.as_object_mut(), extra.as_object()) {
            source.extend(extra.clone());
        }
        source
    }

    fn disk(plan: Result<VolumePlan, String>) -> Result<IscsiDisk, String> {
        match plan? {
            VolumePlan::Iscsi(disk) => Ok(*disk),
            other => panic!("{other:?}"),
        }
    }

    fn planned(extra: &Value) -> Result<IscsiDisk, String> {
        disk(inline(&serde_json::from_value(source(extra)).unwrap(), properties()))
    }

    #[test]
    fn iscsi_defaults_match_upstream() {
        let disk = planned(&json!({"portals": ["10.0.0.2:99"]})).unwrap();
        assert_eq!(disk.portals, ["10.0.0.1:3260", "10.0.0.2:99"]);
        assert_eq!((disk.lun, disk.interface.as_str(), disk.initiator), (2, "default", None));
        assert_eq!((disk.chap, disk.read_only), (Chap::default(), false));
        assert_eq!(disk.attachment, format!("kubernetes.io/iscsi/10.0.0.1:{TARGET}:2"));
        let disk = planned(&json!({"iscsiInterface": "iser", "readOnly": true})).unwrap();
        assert_eq!((disk.interface.as_str(), disk.read_only), ("iser", true));
        assert_eq!(as_files(Some(""), vec![]), as_files(Some("ext4"), vec![]));
    }

    #[test]
    fn custom_initiator_gets_a_separate_interface() {
        let disk = planned(&json!({"iscsiInterface": "iser", "initiatorName": "iqn.x"})).unwrap();
        assert_eq!(disk.interface, "10.0.0.1:3260:data");
        assert_eq!(disk.initiator, Some(OwnInitiator { name: "iqn.x".into(), model: "iser".into() }));
    }

    #[test]
    fn reads_chap_secrets_only_when_enabled() {
        let reference = |namespace: &str| {
            VolumeSecret::Requested(SecretReference { namespace: namespace.into(), name: "chap".into() })
        };
        for (extra, discovery, session, secret) in [
            (json!({"secretRef": {"name": "chap"}}), false, false, VolumeSecret::NotNeeded),
            (json!({"chapAuthSession": true}), false, true, VolumeSecret::NotNeeded),
            (json!({"chapAuthSession": true, "secretRef": {"name": "chap"}}), false, true, reference("own")),
            (
                json!({"chapAuthDiscovery": true, "secretRef": {"name": "chap"}}),
                true,
                false,
                reference("own"),
            ),
        ] {
            assert_eq!(planned(&extra).unwrap().chap, Chap { discovery, session, secret }, "{extra}");
        }
        let extra = json!({"chapAuthSession": true, "secretRef": {"name": "chap", "namespace": "other"}});
        let found = disk(persistent(&serde_json::from_value(source(&extra)).unwrap(), properties())).unwrap();
        assert_eq!(found.chap.secret, reference("other"));
    }

    #[test]
    fn rejects_invalid_iscsi_names() {
        for (extra, part) in [
            (json!({"initiatorName": "-x"}), "is no portal"),
            (json!({"targetPortal": "../../etc"}), "is no portal"),
            (json!({"targetPortal": "-x"}), "is no portal"),
            (json!({"iscsiInterface": "a/b"}), "is no portal"),
        ] {
            assert!(planned(&extra).unwrap_err().contains(part), "{extra}");
        }
    }
}
