//! Sets `started` and `ready` of container statuses from the probe results.

use k8s_openapi::api::core::v1::{Container, ContainerStatus};
use model::{ContainerProbeResults, ProbeResult};

use super::{ContainerStatuses, PodStatusInputs};
use crate::pipeline::pod_actions::is_sidecar;

pub(super) fn set_readiness(inputs: &PodStatusInputs<'_>, statuses: &mut ContainerStatuses) {
    for status in &mut statuses.regular {
        if let Some(container) = inputs.pod.spec.containers.iter().find(|entry| entry.name == status.name) {
            set_container_readiness(inputs, container, status);
        }
    }
    for status in &mut statuses.init {
        let mut init = inputs.pod.spec.init_containers.iter().flatten();
        let Some(container) = init.find(|entry| entry.name == status.name) else { continue };
        set_container_readiness(inputs, container, status);
        if !is_sidecar(container) {
            // A completed init container counts as ready.
            let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
            status.ready = ended.is_some_and(|ended| ended.exit_code == 0);
        }
    }
}

fn set_container_readiness(
    inputs: &PodStatusInputs<'_>,
    container: &Container,
    status: &mut ContainerStatus,
) {
    let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
    let probe_results = probe_results(inputs, status);
    let previous = previous(inputs, status);
    let started = runs
        && match probe_results.and_then(|probe_results| probe_results.startup) {
            Some(result) => result == ProbeResult::Success,
            // A restarted agent has no probe results yet and keeps the reported value.
            None => {
                container.startup_probe.is_none() || previous.is_some_and(|old| old.started == Some(true))
            }
        };
    status.started = Some(started);
    status.ready = started
        && match probe_results.and_then(|probe_results| probe_results.readiness) {
            Some(result) => result == ProbeResult::Success,
            None => container.readiness_probe.is_none() || previous.is_some_and(|old| old.ready),
        };
}

/// The probe results, if they belong to this container ID.
fn probe_results<'a>(
    inputs: &PodStatusInputs<'a>,
    status: &ContainerStatus,
) -> Option<&'a ContainerProbeResults> {
    let probe_results = inputs.probe_results?.get(&status.name)?;
    let id = status.container_id.as_deref()?.rsplit_once("://")?.1;
    (probe_results.id.as_str() == id).then_some(probe_results)
}

/// The previous status, if it belongs to this container ID.
fn previous<'a>(inputs: &PodStatusInputs<'a>, status: &ContainerStatus) -> Option<&'a ContainerStatus> {
    let previous = inputs.previous.filter(|_| !inputs.node.gates.restart_forgets_probes)?;
    let lists = [&previous.container_statuses, &previous.init_container_statuses];
    lists
        .into_iter()
        .flatten()
        .flatten()
        .find(|old| old.name == status.name && old.container_id == status.container_id)
        .filter(|old| old.container_id.is_some())
}
