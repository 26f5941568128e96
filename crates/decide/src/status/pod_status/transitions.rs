//! Rejects statuses in which a terminated container runs again.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodStatus};
use model::Pod;

use super::restart_all::has_restart_all_rule;
use crate::pipeline::pod_actions::{is_sidecar, restarts_after};

/// A container that terminated and is not restarted must stay terminated.
pub(super) fn check(pod: &Pod, old: &PodStatus, new: &PodStatus) -> Result<(), String> {
    let spec = &pod.spec;
    if spec.restart_policy.as_deref().is_none_or(|policy| policy == "Always") || has_restart_all_rule(spec) {
        return Ok(());
    }
    check_list(pod, &spec.containers, old.container_statuses.as_ref(), new.container_statuses.as_ref())?;
    check_list(
        pod,
        spec.init_containers.as_deref().unwrap_or_default(),
        old.init_container_statuses.as_ref(),
        new.init_container_statuses.as_ref(),
    )
}

fn check_list(
    pod: &Pod,
    containers: &[Container],
    old: Option<&Vec<ContainerStatus>>,
    new: Option<&Vec<ContainerStatus>>,
) -> Result<(), String> {
    for status in old.into_iter().flatten() {
        let Some(ended) = status.state.as_ref().and_then(|state| state.terminated.as_ref()) else { continue };
        let container = containers.iter().find(|container| container.name == status.name);
        if container.is_some_and(|entry| is_sidecar(entry) || restarts_after(pod, entry, ended.exit_code)) {
            continue;
        }
        let next = new.into_iter().flatten().find(|next| next.name == status.name);
        let alive =
            next.is_some_and(|next| next.state.as_ref().is_none_or(|state| state.terminated.is_none()));
        if alive {
            return Err(format!(
                "terminated container {} attempted illegal transition to non-terminated state",
                status.name
            ));
        }
    }
    Ok(())
}
