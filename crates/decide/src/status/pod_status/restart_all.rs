//! Pods whose containers are all restarted together (`RestartAllContainers`).

use k8s_openapi::api::core::v1::PodSpec;
use model::ObservedPod;

use super::PodStatusInputs;
use crate::pipeline::pod_actions::restarts_all_containers;

/// Whether a container has a `RestartAllContainers` rule.
pub(super) fn has_restart_all_rule(spec: &PodSpec) -> bool {
    let mut rules = spec
        .init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
        .flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == "RestartAllContainers")
}

/// Whether a `RestartAllContainers` restart is in progress.
pub(super) fn is_restarting_all(inputs: &PodStatusInputs<'_>) -> bool {
    let conditions = inputs.previous.and_then(|previous| previous.conditions.as_ref()).into_iter().flatten();
    let mut under_way = conditions.filter(|condition| condition.type_ == "AllContainersRestarting");
    under_way.any(|condition| condition.status == "True")
        || inputs.observed.is_some_and(|observed| restarts_all_containers(inputs.pod, observed))
}

/// Whether the runtime has none of the pod's containers.
pub(super) fn has_no_containers(spec: &PodSpec, observed: Option<&ObservedPod>) -> bool {
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.all(|container| observed.is_none_or(|observed| observed.container(&container.name).is_none()))
}
