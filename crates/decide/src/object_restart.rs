//! Restarts that a pod asks for when a ConfigMap or Secret of its containers changes.
//!
//! Each container of such a pod carries which objects it was started with, so that a change is seen also when the
//! agent was away. An object that is removed restarts nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::{ContainerKind, ContainerState, ObservedPod, Pod, ReadObjects, labels};

use crate::object_references::container_references;
use crate::pod_actions::{
    KillContainer, KillReason, PodActions, SandboxPlan, StartContainer, is_half_made, is_sidecar,
    restart_count,
};

/// Whether the pod asks for restarts.
#[must_use]
pub fn asks_for_restarts(pod: &Pod) -> bool {
    pod.annotation(labels::RESTART_ON_CHANGE) == Some("true")
}

/// The annotation that says which objects a container is started with; none unless its pod asks for restarts.
#[must_use]
pub fn started_with(pod: &Pod, container: &Container, objects: &ReadObjects) -> Option<(String, String)> {
    if !asks_for_restarts(pod) {
        return None;
    }
    let present = present(pod, container, objects);
    let list: Vec<_> = present.iter().map(|(name, digest)| format!("{name}={digest}")).collect();
    Some((labels::STARTED_WITH.to_owned(), list.join(",")))
}

/// The next container to restart because an object of it changed. One at a time: only while the plan has nothing
/// else to do, which it has until the last one runs again.
#[must_use]
pub fn next_restart(
    pod: &Pod,
    observed: &ObservedPod,
    objects: &ReadObjects,
    actions: &PodActions,
) -> Option<(KillContainer, StartContainer)> {
    let is_quiet = actions.is_empty() && matches!(actions.sandbox, SandboxPlan::Keep(_));
    if !is_quiet || pod.is_deleted() || !asks_for_restarts(pod) {
        return None;
    }
    pod.containers().find_map(|entry| {
        let (kind, container) = (entry.kind, entry.container);
        let stays = match kind {
            ContainerKind::Regular => true,
            ContainerKind::Init => is_sidecar(container),
            ContainerKind::Ephemeral => false,
        };
        let status = observed.containers_named(&container.name).find(|status| !is_half_made(status))?;
        let recorded = status.annotations.get(labels::STARTED_WITH)?;
        if !stays
            || status.state != ContainerState::Running
            || !is_outdated(recorded, &present(pod, container, objects))
        {
            return None;
        }
        let (name, id) = (container.name.clone(), status.id.clone());
        let kill =
            KillContainer { id, name: name.clone(), kind, reason: KillReason::ObjectsChanged, restart: true };
        let restart_count = Some(restart_count(status).saturating_add(1));
        Some((kill, StartContainer { name, kind, restart_count }))
    })
}

/// The objects of a container that are there, with a number that changes with their content.
fn present(pod: &Pod, container: &Container, objects: &ReadObjects) -> BTreeMap<String, String> {
    let named = container_references(pod, container).into_iter().filter_map(|key| {
        let digest = objects.get(&key)?.as_ref().ok()?.digest();
        Some((format!("{}/{}", key.kind.resource(), key.name), format!("{digest:016x}")))
    });
    named.collect()
}

fn is_outdated(recorded: &str, present: &BTreeMap<String, String>) -> bool {
    let recorded: BTreeMap<_, _> = recorded.split(',').filter_map(|entry| entry.split_once('=')).collect();
    present.iter().any(|(name, digest)| recorded.get(name.as_str()) != Some(&digest.as_str()))
}

#[cfg(test)]
mod tests;
