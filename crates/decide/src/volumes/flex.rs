//! FlexVolume volumes.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{self as core, FlexPersistentVolumeSource, FlexVolumeSource};
use model::{CsiPod, CsiSize, FlexVolume, SecretReference, VolumePlan, VolumeSecret};

/// Properties from the pod and its volume.
pub(super) struct VolumeProperties<'a> {
    pub(super) path: PathBuf,
    pub(super) name: &'a str,
    pub(super) pod: CsiPod,
    pub(super) read_only: bool,
    pub(super) size: Option<CsiSize>,
}

/// Plans an inline volume, whose secret is in the namespace of the pod.
///
/// # Errors
/// When the driver name is invalid.
pub(super) fn inline(
    source: &FlexVolumeSource,
    properties: VolumeProperties<'_>,
) -> Result<VolumePlan, String> {
    let FlexVolumeSource { driver, fs_type, options, read_only, secret_ref } = source.clone();
    let secret_ref =
        secret_ref.map(|reference| core::SecretReference { name: Some(reference.name), namespace: None });
    plan(&FlexPersistentVolumeSource { driver, fs_type, options, read_only, secret_ref }, properties)
}

/// Plans a PersistentVolume.
///
/// # Errors
/// When the driver name is invalid.
pub(super) fn plan(
    source: &FlexPersistentVolumeSource,
    properties: VolumeProperties<'_>,
) -> Result<VolumePlan, String> {
    let driver = &source.driver;
    // It is used as a folder name and a program path.
    let is_name = |word: &str| !word.is_empty() && !word.starts_with('.') && !word.contains(['\0', '~']);
    if !driver.split('/').all(is_name) || driver.split('/').count() > 2 {
        return Err(format!("flexVolume: {driver:?} is no name of a driver"));
    }
    let secret = match &source.secret_ref {
        Some(core::SecretReference { name: Some(name), namespace }) if !name.is_empty() => {
            let namespace = namespace.clone().filter(|namespace| !namespace.is_empty());
            let namespace = namespace.unwrap_or_else(|| properties.pod.namespace.clone());
            VolumeSecret::Requested(SecretReference { namespace, name: name.clone() })
        }
        Some(_) | None => VolumeSecret::NotNeeded,
    };
    Ok(VolumePlan::Flex(Box::new(FlexVolume {
        path: properties.path,
        name: properties.name.to_owned(),
        driver: driver.clone(),
        fs_type: source.fs_type.clone().unwrap_or_default(),
        read_only: properties.read_only,
        options: source.options.clone().unwrap_or_default().into_iter().collect(),
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
        match plan(&serde_json::from_value(source.clone()).unwrap(), properties)? {
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
