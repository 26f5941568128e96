//! How far the init containers are, and which of them must be started or stopped.
//!
//! The walk goes from the last to the first: finished ones may have been removed from the runtime, so the latest
//! that is known decides. Sidecars before it are still looked after.

use k8s_openapi::api::core::v1::Container;
use model::{ContainerKind, ContainerState, ContainerStatus, ObservedPod, Pod, ProbeVerdict, SandboxId};

use super::restart::{RestartPolicy, effective_policy, is_sidecar, should_restart};
use super::{KillContainer, KillReason, PodActions, Situation, current, definition_changed, start};

/// How far the init containers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Regular containers may run.
    Done,
    /// Something has to happen first.
    Pending,
    /// One failed for good.
    Failed,
}

/// Adds what must happen to init containers to the actions.
pub(super) fn plan_init(
    situation: &Situation<'_>,
    sandbox: &SandboxId,
    actions: &mut PodActions,
) -> Progress {
    let Situation { pod, observed, .. } = *situation;
    let init = pod.spec.init_containers.as_deref().unwrap_or_default();
    if init.is_empty() {
        return Progress::Done;
    }
    let started = regular_was_made(pod, observed, sandbox);
    let mut walk = Walk { situation, last: init.len() - 1, done: started, past: started, starts: Vec::new() };
    for (index, container) in init.iter().enumerate().rev() {
        let sidecar = is_sidecar(container);
        let Some(status) = current(observed, &container.name) else {
            // What is past and forgotten must run again only if it should always run.
            if walk.past && sidecar {
                walk.starts.push(index);
            }
            continue;
        };
        if sidecar {
            walk.sidecar(index, container, status, actions);
        } else if walk.past {
            continue;
        } else if walk.plain(index, container, status, actions) == Progress::Failed {
            return Progress::Failed;
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
    if walk.done { Progress::Done } else { Progress::Pending }
}

struct Walk<'a> {
    situation: &'a Situation<'a>,
    /// Index of the last init container.
    last: usize,
    /// Whether all of them are done.
    done: bool,
    /// Whether a later container is known, so that the ones before it are done.
    past: bool,
    /// What to start, last first.
    starts: Vec<usize>,
}

impl Walk<'_> {
    fn sidecar(
        &mut self,
        index: usize,
        container: &Container,
        status: &ContainerStatus,
        actions: &mut PodActions,
    ) {
        let verdicts = self.situation.verdicts(&container.name, status);
        let startup = match verdicts.and_then(|verdicts| verdicts.startup) {
            // What has no startup probe has started when it runs.
            None if container.startup_probe.is_none() => Some(ProbeVerdict::Success),
            other => other,
        };
        let liveness = verdicts.and_then(|verdicts| verdicts.liveness);
        let reason = match (status.state, startup) {
            (ContainerState::Exited | ContainerState::Created, _) => return self.starts.push(index),
            (ContainerState::Unknown, _) => KillReason::UnknownState,
            (ContainerState::Running, None) => return,
            (ContainerState::Running, Some(ProbeVerdict::Failure)) => KillReason::StartupFailed,
            (ContainerState::Running, Some(ProbeVerdict::Success)) => {
                self.finished(index);
                match liveness {
                    _ if definition_changed(container, status) => KillReason::DefinitionChanged,
                    Some(ProbeVerdict::Failure) => KillReason::LivenessFailed,
                    Some(ProbeVerdict::Success) | None => return,
                }
            }
        };
        actions.kill.push(kill(container, status, reason));
        self.starts.push(index);
    }

    fn plain(
        &mut self,
        index: usize,
        container: &Container,
        status: &ContainerStatus,
        actions: &mut PodActions,
    ) -> Progress {
        let pod = self.situation.pod;
        match status.state {
            ContainerState::Running => {}
            ContainerState::Exited if !failed(status) => self.finished(index),
            ContainerState::Exited if should_restart(pod, status) => self.starts.push(index),
            ContainerState::Exited => return Progress::Failed,
            // There is no exit code that a rule could look at.
            ContainerState::Unknown if effective_policy(pod, container) == RestartPolicy::Never => {
                return Progress::Failed;
            }
            ContainerState::Unknown => {
                actions.kill.push(kill(container, status, KillReason::UnknownState));
                self.starts.push(index);
            }
            ContainerState::Created => self.starts.push(index),
        }
        Progress::Pending
    }

    /// The container at `index` has done its part.
    fn finished(&mut self, index: usize) {
        if index == self.last {
            self.done = true;
        } else if !self.past {
            self.starts.push(index + 1);
        }
    }
}

/// Whether an init container's end counts as a failure. Running out of memory does, whatever the exit code.
pub(super) fn failed(status: &ContainerStatus) -> bool {
    match status.state {
        ContainerState::Exited => status.exit_code != 0 || status.reason == "OOMKilled",
        ContainerState::Unknown => true,
        ContainerState::Running | ContainerState::Created => false,
    }
}

/// Whether a regular container was made in this sandbox: then every init container has done its part, even if the
/// runtime has forgotten it.
fn regular_was_made(pod: &Pod, observed: &ObservedPod, sandbox: &SandboxId) -> bool {
    pod.spec.containers.iter().filter_map(|container| observed.container(&container.name)).any(|status| {
        match status.state {
            ContainerState::Created | ContainerState::Running => true,
            ContainerState::Exited => status.sandbox_id == *sandbox,
            ContainerState::Unknown => false,
        }
    })
}

fn kill(container: &Container, status: &ContainerStatus, reason: KillReason) -> KillContainer {
    KillContainer {
        id: status.id.clone(),
        name: container.name.clone(),
        kind: ContainerKind::Init,
        reason,
        restart: true,
    }
}
