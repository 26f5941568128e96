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
        keys.add(ObjectKind::Secret, &secret.name);
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

    fn add(&mut self, kind: ObjectKind, name: &str) {
        if !name.is_empty() {
            let (namespace, name) = (self.namespace.to_owned(), name.to_owned());
            self.found.insert(ObjectKey { kind, namespace, name });
        }
    }

    fn environment(&mut self, container: &Container) {
        for source in container.env_from.iter().flatten() {
            if let Some(source) = &source.config_map_ref {
                self.add(ObjectKind::ConfigMap, &source.name);
            }
            if let Some(source) = &source.secret_ref {
                self.add(ObjectKind::Secret, &source.name);
            }
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            if let Some(source) = &source.config_map_key_ref {
                self.add(ObjectKind::ConfigMap, &source.name);
            }
            if let Some(source) = &source.secret_key_ref {
                self.add(ObjectKind::Secret, &source.name);
            }
        }
    }

    fn volume(&mut self, volume: &Volume) {
        if let Some(source) = &volume.config_map {
            self.add(ObjectKind::ConfigMap, &source.name);
        }
        if let Some(source) = &volume.secret {
            self.add(ObjectKind::Secret, source.secret_name.as_deref().unwrap_or_default());
        }
        let sources = volume.projected.iter().flat_map(|volume| volume.sources.iter().flatten());
        for source in sources {
            if let Some(source) = &source.config_map {
                self.add(ObjectKind::ConfigMap, &source.name);
            }
            if let Some(source) = &source.secret {
                self.add(ObjectKind::Secret, &source.name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
