//! Pods that begin again as a whole.

use k8s_openapi::api::core::v1::PodSpec;
use model::ObservedPod;

use super::Facts;
use crate::pod_actions::all_containers_restart;

/// Whether some exit may restart the whole pod.
pub(super) fn all_could_restart(spec: &PodSpec) -> bool {
    let mut rules = spec
        .init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
        .flat_map(|container| container.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == "RestartAllContainers")
}

/// Whether all containers are being restarted because one of them ended so.
pub(super) fn all_restart(facts: &Facts<'_>) -> bool {
    let conditions = facts.previous.and_then(|previous| previous.conditions.as_ref()).into_iter().flatten();
    let mut under_way = conditions.filter(|condition| condition.type_ == "AllContainersRestarting");
    under_way.any(|condition| condition.status == "True")
        || facts.observed.is_some_and(|observed| all_containers_restart(facts.pod, observed))
}

/// Whether nothing of the pod's containers is left in the runtime.
pub(super) fn is_cleaned_up(spec: &PodSpec, observed: Option<&ObservedPod>) -> bool {
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.all(|container| observed.is_none_or(|observed| observed.container(&container.name).is_none()))
}
