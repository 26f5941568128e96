//! The phase of a pod.

use k8s_openapi::api::core::v1::{Container, ContainerStatus};
use model::{ObservedPod, Pod, SandboxState};

use super::{PodStatusInputs, is_terminated};
use crate::pipeline::pod_actions::{is_sidecar, restarts_after};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// At least one container has not run yet.
    Pending,
    /// At least one container runs or will be restarted.
    Running,
    /// All containers exited with code 0.
    Succeeded,
    /// All containers terminated, at least one of them with an error.
    Failed,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Inputs of [`phase`] besides the container statuses.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseInputs {
    /// No container is started again, whatever the restart policies are.
    pub terminated: bool,
    /// The current sandbox has a regular container, so initialization is complete.
    pub initialized: bool,
}

impl PhaseInputs {
    pub(super) fn of(inputs: &PodStatusInputs<'_>) -> Self {
        Self {
            terminated: is_terminated(inputs),
            initialized: inputs.observed.is_some_and(|observed| has_regular_container(inputs.pod, observed)),
        }
    }
}

fn has_regular_container(pod: &Pod, observed: &ObservedPod) -> bool {
    let current = observed.sandboxes.first().filter(|sandbox| sandbox.state == SandboxState::Ready);
    current.is_some_and(|sandbox| {
        let inside = observed.containers.iter().filter(|status| status.sandbox_id == sandbox.id);
        inside
            .into_iter()
            .any(|status| pod.spec.containers.iter().any(|container| container.name == status.name))
    })
}

pub fn phase(
    pod: &Pod,
    init: &[ContainerStatus],
    regular: &[ContainerStatus],
    phase_inputs: &PhaseInputs,
) -> Phase {
    let init_counts = InitCounts::of(pod, init);
    let counts = ContainerCounts::of(pod, init, regular);
    if init_counts.failed > 0 {
        return Phase::Failed;
    }
    let waits_for_sidecars = counts.pending_sidecars > 0 && !phase_inputs.initialized;
    if init_counts.pending > 0 || waits_for_sidecars || counts.pending > 0 {
        return Phase::Pending;
    }
    if counts.running > 0 {
        return Phase::Running;
    }
    if counts.stopped == 0 {
        return Phase::Pending;
    }
    // A stopped static pod does not become terminal, because its manifest may start it again.
    let is_final = phase_inputs.terminated && !pod.is_static();
    if !is_final && counts.restarting > 0 {
        Phase::Running
    } else if counts.stopped == counts.succeeded {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}

/// Counts of init containers, without sidecars.
#[derive(Default)]
struct InitCounts {
    pending: usize,
    failed: usize,
}

impl InitCounts {
    fn of(pod: &Pod, statuses: &[ContainerStatus]) -> Self {
        let mut found = Self::default();
        for container in pod.spec.init_containers.iter().flatten().filter(|entry| !is_sidecar(entry)) {
            match lifecycle_state(statuses, container) {
                LifecycleState::Running | LifecycleState::Waiting | LifecycleState::Unknown => {
                    found.pending += 1;
                }
                LifecycleState::Stopped(end) if end.code != 0 => {
                    found.failed += usize::from(!end.restarts(pod, container));
                }
                LifecycleState::Stopped(_) => {}
            }
        }
        found
    }
}

/// Counts of regular containers and sidecars.
#[derive(Default)]
struct ContainerCounts {
    running: usize,
    /// Waiting, or without a status.
    pending: usize,
    stopped: usize,
    restarting: usize,
    succeeded: usize,
    pending_sidecars: usize,
}

impl ContainerCounts {
    fn of(pod: &Pod, init: &[ContainerStatus], regular: &[ContainerStatus]) -> Self {
        let mut counts = Self::default();
        for container in pod.spec.init_containers.iter().flatten().filter(|entry| is_sidecar(entry)) {
            match lifecycle_state(init, container) {
                LifecycleState::Running => {
                    let status = init.iter().find(|status| status.name == container.name);
                    let started = status.is_some_and(|status| status.started == Some(true));
                    counts.pending_sidecars += usize::from(!started);
                    counts.running += 1;
                }
                // A stopped sidecar does not affect the phase.
                LifecycleState::Stopped(_) => {}
                LifecycleState::Waiting => {
                    counts.pending_sidecars += 1;
                    counts.pending += 1;
                }
                LifecycleState::Unknown => counts.pending += 1,
            }
        }
        for container in &pod.spec.containers {
            match lifecycle_state(regular, container) {
                LifecycleState::Running => counts.running += 1,
                LifecycleState::Waiting | LifecycleState::Unknown => counts.pending += 1,
                LifecycleState::Stopped(end) => {
                    counts.stopped += 1;
                    counts.restarting += usize::from(end.restarts(pod, container));
                    counts.succeeded += usize::from(end.code == 0 && end.is_current);
                }
            }
        }
        counts
    }
}

enum LifecycleState {
    Running,
    Waiting,
    Stopped(Termination),
    Unknown,
}

struct Termination {
    code: i32,
    /// From `state`; false if from `lastState`.
    is_current: bool,
    by_restart_all: bool,
}

impl Termination {
    fn restarts(&self, pod: &Pod, container: &Container) -> bool {
        self.by_restart_all || restarts_after(pod, container, self.code)
    }
}

fn lifecycle_state(statuses: &[ContainerStatus], container: &Container) -> LifecycleState {
    let Some(status) = statuses.iter().find(|status| status.name == container.name) else {
        return LifecycleState::Unknown;
    };
    let Some(state) = &status.state else { return LifecycleState::Unknown };
    let end = |ended: &k8s_openapi::api::core::v1::ContainerStateTerminated, is_current| {
        LifecycleState::Stopped(Termination {
            code: ended.exit_code,
            is_current,
            by_restart_all: ended.reason.as_deref() == Some("RestartingAllContainers"),
        })
    };
    let before = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    match (&state.running, &state.terminated, &state.waiting) {
        (Some(_), _, _) => LifecycleState::Running,
        (None, Some(ended), _) => end(ended, true),
        (None, None, Some(_)) => before.map_or(LifecycleState::Waiting, |ended| end(ended, false)),
        (None, None, None) => LifecycleState::Unknown,
    }
}
