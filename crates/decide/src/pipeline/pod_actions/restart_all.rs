//! `RestartAllContainers`: the exit of one container restarts all containers in the same sandbox.

use k8s_openapi::api::core::v1::Container;
use model::{ContainerId, ContainerState, ObservedPod, Pod};

use super::current;
use super::restart::restarts_all_after;

/// A container that is removed so that all containers can restart. Its log stays, because the restart count is read from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetContainer {
    pub id: ContainerId,
    pub name: String,
    /// A running container is stopped before it is removed.
    pub running: bool,
}

/// Whether an exited container requires a restart of all containers.
///
/// The runtime is the only record of it: the containers that require the restart are removed last, so that an agent that is
/// killed in between finds them and continues.
pub fn restarts_all_containers(pod: &Pod, observed: &ObservedPod) -> bool {
    !pod.is_deleted()
        && pod.containers().any(|entry| {
            current(observed, &entry.container.name).is_some_and(|status| {
                status.state == ContainerState::Exited
                    && restarts_all_after(entry.container, status.exit_code)
            })
        })
}

/// All containers of the pod in the order of removal.
pub(super) fn resets(pod: &Pod, observed: &ObservedPod) -> Vec<ResetContainer> {
    let (mut regular_causes, mut resets) = split(&pod.spec.containers, observed);
    let (init_causes, init) = split(pod.spec.init_containers.as_deref().unwrap_or_default(), observed);
    resets.extend(init);
    resets.append(&mut regular_causes);
    resets.extend(init_causes);
    resets
}

/// The containers that require the restart, and all others.
fn split(containers: &[Container], observed: &ObservedPod) -> (Vec<ResetContainer>, Vec<ResetContainer>) {
    let (mut causes, mut others) = (Vec::new(), Vec::new());
    for container in containers {
        for status in observed.containers_named(&container.name) {
            let exited = status.state == ContainerState::Exited;
            let requires_restart = exited && restarts_all_after(container, status.exit_code);
            let reset =
                ResetContainer { id: status.id.clone(), name: container.name.clone(), running: !exited };
            if requires_restart { causes.push(reset) } else { others.push(reset) }
        }
    }
    (causes, others)
}
