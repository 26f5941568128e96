//! iSCSI volumes.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{self as core, ISCSIPersistentVolumeSource, ISCSIVolumeSource};
use model::{Chap, DiskUse, IscsiDisk, OwnInitiator, SecretReference, VolumePlan, VolumeSecret};

const PORT: &str = "3260";
const INTERFACE: &str = "default";
const FILE_SYSTEM: &str = "ext4";

/// Properties from the pod and its volume.
pub(super) struct VolumeProperties<'a> {
    pub(super) path: PathBuf,
    pub(super) name: &'a str,
    /// Default namespace of secrets.
    pub(super) namespace: &'a str,
    pub(super) use_as: DiskUse,
    pub(super) read_only: bool,
}

/// Plans an inline volume, whose secret is in the namespace of the pod.
///
/// # Errors
/// When the source is invalid.
pub(super) fn inline(
    source: &ISCSIVolumeSource,
    properties: VolumeProperties<'_>,
) -> Result<VolumePlan, String> {
    let source = source.clone();
    let secret = |reference: core::LocalObjectReference| core::SecretReference {
        name: Some(reference.name),
        namespace: None,
    };
    let source = ISCSIPersistentVolumeSource {
        chap_auth_discovery: source.chap_auth_discovery,
        chap_auth_session: source.chap_auth_session,
        fs_type: source.fs_type,
        initiator_name: source.initiator_name,
        iqn: source.iqn,
        iscsi_interface: source.iscsi_interface,
        lun: source.lun,
        portals: source.portals,
        read_only: source.read_only,
        secret_ref: source.secret_ref.map(secret),
        target_portal: source.target_portal,
    };
    plan(&source, properties)
}

pub(super) fn as_files(fs_type: Option<&str>, options: Vec<String>) -> DiskUse {
    DiskUse::Files { fs_type: given(fs_type, FILE_SYSTEM), options }
}

fn chap(source: &ISCSIPersistentVolumeSource, namespace: &str) -> Chap {
    let (discovery, session) =
        (source.chap_auth_discovery == Some(true), source.chap_auth_session == Some(true));
    let secret = match source.secret_ref.as_ref().filter(|_| discovery || session) {
        Some(core::SecretReference { name: Some(name), namespace: own }) if !name.is_empty() => {
            let namespace = given(own.as_deref(), namespace);
            VolumeSecret::Requested(SecretReference { namespace, name: name.clone() })
        }
        Some(_) | None => VolumeSecret::NotNeeded,
    };
    Chap { discovery, session, secret }
}

fn given(text: Option<&str>, default: &str) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or(default).to_owned()
}

/// Plans a PersistentVolume.
///
/// # Errors
/// When the source is invalid.
pub(super) fn plan(
    source: &ISCSIPersistentVolumeSource,
    properties: VolumeProperties<'_>,
) -> Result<VolumePlan, String> {
    let base = given(source.iscsi_interface.as_deref(), INTERFACE);
    let portals = std::iter::once(&source.target_portal).chain(source.portals.iter().flatten());
    let portals: Vec<String> = portals.map(|portal| with_port(portal)).collect();
    let initiator = source.initiator_name.as_deref().filter(|name| !name.is_empty());
    // They are used as folder names and program arguments.
    let words = portals.iter().chain([&source.iqn, &base]).map(String::as_str).chain(initiator);
    for word in words {
        let is_outside =
            |character: char| character == '/' || character.is_control() || character.is_whitespace();
        if word.is_empty() || word.starts_with(['-', '.']) || word.contains(is_outside) {
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
        target: source.iqn.clone(),
        lun: source.lun,
        interface,
        initiator,
        chap: chap(source, properties.namespace),
        attachment: format!("kubernetes.io/iscsi/{}:{}:{}", source.target_portal, source.iqn, source.lun),
        use_as: properties.use_as,
        read_only: properties.read_only || source.read_only == Some(true),
    })))
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
        let found = disk(plan(&serde_json::from_value(source(&extra)).unwrap(), properties())).unwrap();
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
