//! `RestartAllContainers`: one container's end makes the whole pod begin again in the same sandbox.

use k8s_openapi::api::core::v1::Container;
use model::{ContainerId, ContainerState, ObservedPod, Pod};

use super::current;
use super::restart::restarts_all_after;

/// A container that is removed so that the pod can begin again. Its log stays: it keeps the restart count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetContainer {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Whether it must be stopped first.
    pub running: bool,
}

/// Whether the end of a container asks for everything to begin again.
///
/// It is read from the runtime alone: the containers that asked are removed last, so that an agent which is killed in
/// between finds them and goes on.
#[must_use]
pub fn all_containers_restart(pod: &Pod, observed: &ObservedPod) -> bool {
    !pod.is_deleted()
        && pod.containers().any(|entry| {
            current(observed, &entry.container.name).is_some_and(|status| {
                status.state == ContainerState::Exited
                    && restarts_all_after(entry.container, status.exit_code)
            })
        })
}

/// Everything of the pod in the order of its removal.
pub(super) fn resets(pod: &Pod, observed: &ObservedPod) -> Vec<ResetContainer> {
    let (mut regular_causes, mut resets) = split(&pod.spec.containers, observed);
    let (init_causes, init) = split(pod.spec.init_containers.as_deref().unwrap_or_default(), observed);
    resets.extend(init);
    resets.append(&mut regular_causes);
    resets.extend(init_causes);
    resets
}

/// Those that asked for it, and the others.
fn split(containers: &[Container], observed: &ObservedPod) -> (Vec<ResetContainer>, Vec<ResetContainer>) {
    let (mut causes, mut others) = (Vec::new(), Vec::new());
    for container in containers {
        for status in observed.containers_named(&container.name) {
            let ended = status.state == ContainerState::Exited;
            let asked = ended && restarts_all_after(container, status.exit_code);
            let reset =
                ResetContainer { id: status.id.clone(), name: container.name.clone(), running: !ended };
            if asked { causes.push(reset) } else { others.push(reset) }
        }
    }
    (causes, others)
}
