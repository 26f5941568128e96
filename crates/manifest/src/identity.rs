//! Gives a pod from a manifest the identity of a static pod of this node.

use k8s_openapi::api::core::v1::{Pod, Toleration};

use crate::static_uid::{StaticUidError, static_uid};
use crate::{ManifestLocation, ManifestSource, defaults};

const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// Annotations of old releases that contained init containers; the API server drops them.
pub(crate) const DROPPED_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Computing the identity of a static pod failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    #[error("failed to serialize the pod as JSON: {0}")]
    Encode(#[from] serde_json::Error),
    #[error(transparent)]
    Hash(#[from] StaticUidError),
}

/// Sets the UID, name, namespace, node, hash annotation, toleration and initial phase of a pod with defaults.
pub(crate) fn apply(pod: &mut Pod, source: &ManifestSource<'_>) -> Result<(), IdentityError> {
    let uid = match pod.metadata.uid.take().filter(|uid| !uid.is_empty()) {
        Some(uid) => uid,
        None => static_uid(&serde_json::to_value(&*pod)?, source)?,
    };
    normalize(pod);
    let metadata = &mut pod.metadata;
    let name = metadata.name.take().unwrap_or_default();
    metadata.name = Some(format!("{name}-{}", source.node.to_lowercase()));
    if metadata.namespace.as_deref().unwrap_or_default().is_empty() {
        metadata.namespace = Some("default".to_owned());
    }
    metadata.annotations.get_or_insert_default().insert(CONFIG_HASH.to_owned(), uid.clone());
    metadata.uid = Some(uid);
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(source.node.to_owned());
    if let ManifestLocation::File(_) = source.location {
        tolerate_no_execute(spec.tolerations.get_or_insert_default());
    }
    pod.status.get_or_insert_default().phase = Some("Pending".to_owned());
    Ok(())
}

/// Applies the changes that upstream's conversion between API versions makes to a pod.
fn normalize(pod: &mut Pod) {
    if let Some(annotations) = pod.metadata.annotations.as_mut() {
        annotations.retain(|key, _| !DROPPED_ANNOTATIONS.contains(&key.as_str()));
    }
    let Some(spec) = pod.spec.as_mut() else { return };
    let account = [&spec.service_account_name, &spec.service_account];
    let account = account.into_iter().flatten().find(|name| !name.is_empty()).cloned();
    spec.service_account_name.clone_from(&account);
    spec.service_account = account;
    if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
        spec.termination_grace_period_seconds = Some(1);
    }
    defaults::ensure_divisors(pod);
}

/// Makes static pods from files tolerate all `NoExecute` taints. Removes the time limit of an existing toleration.
fn tolerate_no_execute(tolerations: &mut Vec<Toleration>) {
    let desired = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let matches = |other: &Toleration| {
        text(&other.key).is_empty()
            && text(&other.value).is_empty()
            && other.operator == desired.operator
            && other.effect == desired.effect
    };
    if !tolerations.iter().any(matches) {
        // The list is stored for the lifetime of the pod and does not grow any more.
        tolerations.reserve_exact(1);
        tolerations.push(desired);
        return;
    }
    for toleration in tolerations.iter_mut().filter(|toleration| matches(toleration)) {
        *toleration = desired.clone();
    }
}
