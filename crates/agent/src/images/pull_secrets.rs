//! Credentials that a pod brings along: its `imagePullSecrets`.

use decide::credentials::{read_config_json, read_dockercfg};
use model::{ConfigObject, CredentialOrigin, ObjectKey, ObjectKind, Pod, RegistryCredential};
use ports::objects::Objects;

/// What a pod's pull secrets hold.
#[derive(Debug, Default)]
pub(super) struct PullSecrets {
    /// Their entries, in the order the pod names the secrets.
    pub(super) entries: Vec<RegistryCredential>,
    /// Names of secrets that are missing or hold no credentials.
    pub(super) unusable: Vec<String>,
}

/// Reads the pull secrets of a pod. One that cannot be used is no failure: the pull is tried without it.
pub(super) async fn pull_secrets(objects: &dyn Objects, pod: &Pod) -> PullSecrets {
    let mut found = PullSecrets::default();
    for name in pod.spec.image_pull_secrets.iter().flatten().map(|reference| reference.name.as_str()) {
        // The API allows an empty name and ignores it.
        if name.is_empty() {
            continue;
        }
        let key = ObjectKey {
            kind: ObjectKind::Secret,
            namespace: pod.namespace().to_owned(),
            name: name.to_owned(),
        };
        match objects.get(&key).await.ok().and_then(|secret| entries(&secret)) {
            Some(entries) => found.entries.extend(entries),
            None => found.unusable.push(name.to_owned()),
        }
    }
    found
}

/// The entries of one secret; `None` when it holds no credentials of a known form.
fn entries(secret: &ConfigObject) -> Option<Vec<RegistryCredential>> {
    let origin = CredentialOrigin::Secret {
        uid: String::new(),
        namespace: secret.key.namespace.clone(),
        name: secret.key.name.clone(),
    };
    match secret.secret_type.as_str() {
        "kubernetes.io/dockerconfigjson" => {
            read_config_json(secret.data.get(".dockerconfigjson")?, &origin).ok()
        }
        "kubernetes.io/dockercfg" => read_dockercfg(secret.data.get(".dockercfg")?, &origin).ok(),
        _ => None,
    }
}
