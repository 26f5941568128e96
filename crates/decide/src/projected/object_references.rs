//! Which ConfigMaps and Secrets a pod and its containers use.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Volume};
use model::{ObjectKey, ObjectKind, Pod};

/// Every object that the pod refers to, including image pull secrets.
pub fn object_references(pod: &Pod) -> BTreeSet<ObjectKey> {
    let mut keys = Keys::of(pod);
    for entry in pod.containers().chain(pod.ephemeral_containers()) {
        keys.environment(entry.container);
    }
    pod.spec.volumes.iter().flatten().for_each(|volume| keys.volume(volume));
    for secret in pod.spec.image_pull_secrets.iter().flatten() {
        keys.add(ObjectKind::Secret, Some(&secret.name));
    }
    keys.found
}

/// The objects that a container uses in its environment or mounted volumes.
pub fn container_references(pod: &Pod, container: &Container) -> BTreeSet<ObjectKey> {
    let mut keys = Keys::of(pod);
    keys.environment(container);
    let is_mounted =
        |volume: &&Volume| container.volume_mounts.iter().flatten().any(|mount| mount.name == volume.name);
    pod.spec.volumes.iter().flatten().filter(is_mounted).for_each(|volume| keys.volume(volume));
    keys.found
}

struct Keys<'a> {
    namespace: &'a str,
    found: BTreeSet<ObjectKey>,
}

impl<'a> Keys<'a> {
    fn of(pod: &'a Pod) -> Self {
        Self { namespace: pod.namespace(), found: BTreeSet::new() }
    }

    fn add(&mut self, kind: ObjectKind, name: Option<&String>) {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let (namespace, name) = (self.namespace.to_owned(), name.clone());
            self.found.insert(ObjectKey { kind, namespace, name });
        }
    }

    fn environment(&mut self, container: &Container) {
        for source in container.env_from.iter().flatten() {
            self.add(ObjectKind::ConfigMap, source.config_map_ref.as_ref().map(|source| &source.name));
            self.add(ObjectKind::Secret, source.secret_ref.as_ref().map(|source| &source.name));
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            self.add(ObjectKind::ConfigMap, source.config_map_key_ref.as_ref().map(|source| &source.name));
            self.add(ObjectKind::Secret, source.secret_key_ref.as_ref().map(|source| &source.name));
        }
    }

    fn volume(&mut self, volume: &Volume) {
        self.add(ObjectKind::ConfigMap, volume.config_map.as_ref().map(|source| &source.name));
        self.add(ObjectKind::Secret, volume.secret.as_ref().and_then(|source| source.secret_name.as_ref()));
        for source in volume.projected.iter().flat_map(|volume| volume.sources.iter().flatten()) {
            self.add(ObjectKind::ConfigMap, source.config_map.as_ref().map(|source| &source.name));
            self.add(ObjectKind::Secret, source.secret.as_ref().map(|source| &source.name));
        }
    }
}

#[cfg(test)]
mod tests;
