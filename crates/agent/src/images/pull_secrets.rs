//! Credentials from a pod's `imagePullSecrets`.

use decide::images::credentials::read_secret;
use model::{ObjectKey, ObjectKind, Pod, RegistryCredential};
use ports::served::objects::Objects;

#[derive(Debug, Default)]
pub(super) struct PullSecrets {
    /// In the order of the secrets in the pod.
    pub(super) entries: Vec<RegistryCredential>,
    /// Names of secrets that are missing or contain no credentials.
    pub(super) unusable: Vec<String>,
}

/// Reads the pull secrets of a pod. An unusable secret is not an error: the pull is tried without it.
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
        match objects.get(&key).await.ok().and_then(|secret| read_secret(&secret)) {
            Some(entries) => found.entries.extend(entries),
            None => found.unusable.push(name.to_owned()),
        }
    }
    found
}
