//! Progress of the init containers, and which of them must be started or stopped.
//!
//! The walk goes from the last to the first: completed containers may have been removed from the runtime, so the last
//! one with a status decides. Sidecars before it are still kept running.

use k8s_openapi::api::core::v1::Container;
use model::{ContainerKind, ContainerState, ContainerStatus, ObservedPod, Pod, ProbeResult, SandboxId};

use super::restart::{RestartPolicy, effective_policy, is_sidecar, should_restart};
use super::{KillContainer, KillReason, PlanInputs, PodActions, current, definition_changed, start};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InitProgress {
    /// Regular containers may start.
    Done,
    /// An init container has not completed, or a sidecar has not started.
    Pending,
    /// An init container failed and is not restarted.
    Failed,
}

/// Adds the kills and starts of init containers to `actions`.
pub(super) fn plan_init(
    inputs: &PlanInputs<'_>,
    sandbox: &SandboxId,
    actions: &mut PodActions,
) -> InitProgress {
    let PlanInputs { pod, observed, .. } = *inputs;
    let init = pod.spec.init_containers.as_deref().unwrap_or_default();
    if init.is_empty() {
        return InitProgress::Done;
    }
    let started = regular_was_created(pod, observed, sandbox);
    let mut walk =
        InitWalk { inputs, last_index: init.len() - 1, done: started, past: started, starts: Vec::new() };
    for (index, container) in init.iter().enumerate().rev() {
        let sidecar = is_sidecar(container);
        let Some(status) = current(observed, &container.name) else {
            // A completed container that the runtime no longer lists runs again only if it is a sidecar.
            if walk.past && sidecar {
                walk.starts.push(index);
            }
            continue;
        };
        if sidecar {
            walk.sidecar(index, container, status, actions);
        } else if walk.past {
            continue;
        } else if walk.plain(index, container, status, actions) == InitProgress::Failed {
            return InitProgress::Failed;
        }
        walk.past = true;
    }
    if !walk.past {
        walk.starts.push(0);
    }
    for index in walk.starts.iter().rev() {
        if let Some(container) = init.get(*index) {
            actions.start.push(start(container, ContainerKind::Init, observed));
        }
    }
    if walk.done { InitProgress::Done } else { InitProgress::Pending }
}

struct InitWalk<'a> {
    inputs: &'a PlanInputs<'a>,
    last_index: usize,
    /// Whether all init containers have completed.
    done: bool,
    /// Whether a later container has a status, so that all before it have completed.
    past: bool,
    /// Indices of containers to start, last first.
    starts: Vec<usize>,
}

impl InitWalk<'_> {
    fn sidecar(
        &mut self,
        index: usize,
        container: &Container,
        status: &ContainerStatus,
        actions: &mut PodActions,
    ) {
        let probe_results = self.inputs.probe_results(&container.name, status);
        let startup = match probe_results.and_then(|probe_results| probe_results.startup) {
            // A sidecar without a startup probe has started as soon as it runs.
            None if container.startup_probe.is_none() => Some(ProbeResult::Success),
            other => other,
        };
        let liveness = probe_results.and_then(|probe_results| probe_results.liveness);
        let reason = match (status.state, startup) {
            (ContainerState::Exited | ContainerState::Created, _) => return self.starts.push(index),
            (ContainerState::Unknown, _) => KillReason::UnknownState,
            (ContainerState::Running, None) => return,
            (ContainerState::Running, Some(ProbeResult::Failure)) => KillReason::StartupFailed,
            (ContainerState::Running, Some(ProbeResult::Success)) => {
                self.completed(index);
                match liveness {
                    _ if definition_changed(container, status) => KillReason::DefinitionChanged,
                    Some(ProbeResult::Failure) => KillReason::LivenessFailed,
                    Some(ProbeResult::Success) | None => return,
                }
            }
        };
        actions.kill.push(kill(status, reason));
        self.starts.push(index);
    }

    fn plain(
        &mut self,
        index: usize,
        container: &Container,
        status: &ContainerStatus,
        actions: &mut PodActions,
    ) -> InitProgress {
        let pod = self.inputs.pod;
        match status.state {
            ContainerState::Running => {}
            ContainerState::Exited if !failed(status) => self.completed(index),
            ContainerState::Exited if should_restart(pod, status) => self.starts.push(index),
            ContainerState::Exited => return InitProgress::Failed,
            // There is no exit code that restart rules could match.
            ContainerState::Unknown if effective_policy(pod, container) == RestartPolicy::Never => {
                return InitProgress::Failed;
            }
            ContainerState::Unknown => {
                actions.kill.push(kill(status, KillReason::UnknownState));
                self.starts.push(index);
            }
            ContainerState::Created => self.starts.push(index),
        }
        InitProgress::Pending
    }

    /// The container at `index` has completed; the next one may start.
    fn completed(&mut self, index: usize) {
        if index == self.last_index {
            self.done = true;
        } else if !self.past {
            self.starts.push(index + 1);
        }
    }
}

/// Whether an init container failed. An OOM kill counts as a failure, whatever the exit code.
pub(super) fn failed(status: &ContainerStatus) -> bool {
    match status.state {
        ContainerState::Exited => status.exit_code != 0 || status.reason == "OOMKilled",
        ContainerState::Unknown => true,
        ContainerState::Running | ContainerState::Created => false,
    }
}

/// Whether a regular container was created in this sandbox: then all init containers have completed, even if the runtime
/// no longer lists them.
fn regular_was_created(pod: &Pod, observed: &ObservedPod, sandbox: &SandboxId) -> bool {
    pod.spec.containers.iter().filter_map(|container| observed.container(&container.name)).any(|status| {
        match status.state {
            ContainerState::Created | ContainerState::Running => true,
            ContainerState::Exited => status.sandbox_id == *sandbox,
            ContainerState::Unknown => false,
        }
    })
}

fn kill(status: &ContainerStatus, reason: KillReason) -> KillContainer {
    KillContainer::new(status, ContainerKind::Init, reason, true)
}
