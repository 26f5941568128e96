//! Credentials that a pod brings along: its `imagePullSecrets`.

use decide::credentials::read_secret;
use model::{ObjectKey, ObjectKind, Pod, RegistryCredential};
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
        match objects.get(&key).await.ok().and_then(|secret| read_secret(&secret)) {
            Some(entries) => found.entries.extend(entries),
            None => found.unusable.push(name.to_owned()),
        }
    }
    found
}
