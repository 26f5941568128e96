//! Opt-in restarts of containers whose ConfigMaps or Secrets change.
//!
//! An annotation on each container records the objects it was started with, so that a change is also detected if the agent
//! was not running at the time. The removal of an object restarts nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::{ContainerKind, ContainerState, ObservedPod, Pod, ReadObjects, labels};

use crate::pipeline::pod_actions::{
    KillContainer, KillReason, PodActions, SandboxPlan, StartContainer, is_sidecar, never_ran, restart_count,
};
use crate::projected::object_references::container_references;

/// Whether the pod opts in to restarts.
pub fn restarts_on_object_change(pod: &Pod) -> bool {
    pod.annotation(labels::RESTART_ON_CHANGE) == Some("true")
}

/// The annotation with the objects that a container is started with; `None` unless the pod opts in to restarts.
pub fn started_with_annotation(
    pod: &Pod,
    container: &Container,
    objects: &ReadObjects,
) -> Option<(String, String)> {
    if !restarts_on_object_change(pod) {
        return None;
    }
    let digests = object_digests(pod, container, objects);
    let list: Vec<_> = digests.iter().map(|(name, digest)| format!("{name}={digest}")).collect();
    Some((labels::STARTED_WITH.to_owned(), list.join(",")))
}

/// The next container to restart because one of its objects changed. Containers restart one at a time: only while the plan
/// is empty, so not before the previous container runs again.
pub fn next_restart(
    pod: &Pod,
    observed: &ObservedPod,
    objects: &ReadObjects,
    actions: &PodActions,
) -> Option<(KillContainer, StartContainer)> {
    let is_idle = actions.is_empty() && matches!(actions.sandbox, SandboxPlan::Keep(_));
    if !is_idle || pod.is_deleted() || !restarts_on_object_change(pod) {
        return None;
    }
    pod.containers().find_map(|entry| {
        let (kind, container) = (entry.kind, entry.container);
        let keeps_running = match kind {
            ContainerKind::Regular => true,
            ContainerKind::Init => is_sidecar(container),
            ContainerKind::Ephemeral => false,
        };
        let status = observed.containers_named(&container.name).find(|status| !never_ran(status))?;
        let recorded = status.annotations.get(labels::STARTED_WITH)?;
        if !keeps_running
            || status.state != ContainerState::Running
            || !is_stale(recorded, &object_digests(pod, container, objects))
        {
            return None;
        }
        let kill = KillContainer::new(status, kind, KillReason::ObjectsChanged, true);
        let restart_count = Some(restart_count(status).saturating_add(1));
        Some((kill, StartContainer { name: container.name.clone(), kind, restart_count }))
    })
}

/// The existing objects of a container, with a digest of their content.
fn object_digests(pod: &Pod, container: &Container, objects: &ReadObjects) -> BTreeMap<String, String> {
    let named = container_references(pod, container).into_iter().filter_map(|key| {
        let digest = objects.get(&key)?.as_ref().ok()?.digest();
        Some((format!("{}/{}", key.kind.resource(), key.name), format!("{digest:016x}")))
    });
    named.collect()
}

fn is_stale(recorded: &str, digests: &BTreeMap<String, String>) -> bool {
    let recorded: BTreeMap<_, _> = recorded.split(',').filter_map(|entry| entry.split_once('=')).collect();
    digests.iter().any(|(name, digest)| recorded.get(name.as_str()) != Some(&digest.as_str()))
}

#[cfg(test)]
mod tests;
