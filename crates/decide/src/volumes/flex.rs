//! FlexVolume volumes.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{FlexPersistentVolumeSource, FlexVolumeSource};
use model::{CsiPod, CsiSize, FlexVolume, SecretReference, VolumePlan, VolumeSecret};

/// Properties from the pod and its volume.
pub(super) struct VolumeProperties<'a> {
    pub(super) path: PathBuf,
    pub(super) name: &'a str,
    pub(super) pod: CsiPod,
    pub(super) read_only: bool,
    pub(super) size: Option<CsiSize>,
}

/// Plans an inline volume.
///
/// # Errors
/// When the driver name is invalid.
pub(super) fn inline(
    source: &FlexVolumeSource,
    properties: VolumeProperties<'_>,
) -> Result<VolumePlan, String> {
    let secret = source.secret_ref.as_ref().map(|reference| (None, reference.name.as_str()));
    plan(
        &source.driver,
        properties,
        FlexSource {
            fs_type: source.fs_type.clone(),
            options: source.options.clone().unwrap_or_default().into_iter().collect(),
            secret,
        },
    )
}

/// Plans a PersistentVolume.
///
/// # Errors
/// When the driver name is invalid.
pub(super) fn persistent(
    source: &FlexPersistentVolumeSource,
    properties: VolumeProperties<'_>,
) -> Result<VolumePlan, String> {
    let secret = source.secret_ref.as_ref();
    let secret = secret
        .map(|reference| (reference.namespace.as_deref(), reference.name.as_deref().unwrap_or_default()));
    plan(
        &source.driver,
        properties,
        FlexSource {
            fs_type: source.fs_type.clone(),
            options: source.options.clone().unwrap_or_default().into_iter().collect(),
            secret,
        },
    )
}

/// The fields that inline and persistent sources have in common.
struct FlexSource<'a> {
    fs_type: Option<String>,
    options: std::collections::BTreeMap<String, String>,
    secret: Option<(Option<&'a str>, &'a str)>,
}

fn plan(driver: &str, properties: VolumeProperties<'_>, parts: FlexSource<'_>) -> Result<VolumePlan, String> {
    // It is used as a folder name and a program path.
    let is_name = |word: &str| !word.is_empty() && !word.starts_with('.') && !word.contains(['\0', '~']);
    if !driver.split('/').all(is_name) || driver.split('/').count() > 2 {
        return Err(format!("flexVolume: {driver:?} is no name of a driver"));
    }
    let secret = parts.secret.filter(|(_, name)| !name.is_empty());
    let secret = secret.map_or(VolumeSecret::NotNeeded, |(namespace, name)| {
        let namespace = namespace.filter(|text| !text.is_empty()).unwrap_or(&properties.pod.namespace);
        VolumeSecret::Requested(SecretReference { namespace: namespace.to_owned(), name: name.to_owned() })
    });
    Ok(VolumePlan::Flex(Box::new(FlexVolume {
        path: properties.path,
        name: properties.name.to_owned(),
        driver: driver.to_owned(),
        fs_type: parts.fs_type.unwrap_or_default(),
        read_only: properties.read_only,
        options: parts.options,
        secret,
        pod: properties.pod,
        device: None,
        size: properties.size,
    })))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn planned(source: &Value) -> Result<FlexVolume, String> {
        let pod = CsiPod {
            name: "p".into(),
            namespace: "own".into(),
            uid: "u".into(),
            service_account: "s".into(),
        };
        let properties =
            VolumeProperties { path: "/v".into(), name: "pv", pod, read_only: false, size: None };
        match persistent(&serde_json::from_value(source.clone()).unwrap(), properties)? {
            VolumePlan::Flex(volume) => Ok(*volume),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flex_plan_has_options_and_secrets() {
        let volume = planned(&json!({"driver": "acme/disk", "fsType": "xfs", "options": {"a": "b"},
            "secretRef": {"name": "login"}}))
        .unwrap();
        assert_eq!((volume.driver.as_str(), volume.fs_type.as_str()), ("acme/disk", "xfs"));
        assert_eq!(volume.options, [("a".to_owned(), "b".to_owned())].into());
        let secret = SecretReference { namespace: "own".into(), name: "login".into() };
        assert_eq!(volume.secret, VolumeSecret::Requested(secret));
    }

    #[test]
    fn rejects_driver_name_with_path() {
        for driver in ["", "../x", "a/b/c", "a/../b", "a~b", "/x"] {
            assert!(planned(&json!({"driver": driver})).unwrap_err().contains("is no name"), "{driver}");
        }
        assert!(planned(&json!({"driver": "plain"})).is_ok());
    }
}
