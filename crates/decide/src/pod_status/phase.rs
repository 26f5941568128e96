use k8s_openapi::api::core::v1::{Container, ContainerStatus};
use model::{ObservedPod, Pod, SandboxState};

use super::{Facts, is_terminated};
use crate::pod_actions::{is_sidecar, restarts_after};

/// The one word that sums a pod up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Something has not run yet.
    Pending,
    /// Something runs or will run again.
    Running,
    /// Everything ended well.
    Succeeded,
    /// Everything ended, something badly.
    Failed,
}

impl Phase {
    /// The API's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// Whether the pod is over.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// What else a phase depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings {
    /// Nothing will be started any more, whatever the restart policies say.
    pub over: bool,
    /// A regular container was made in the present sandbox, so the pod is past its initialisation.
    pub initialized: bool,
}

impl Surroundings {
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        Self {
            over: is_terminated(facts),
            initialized: facts.observed.is_some_and(|observed| has_begun(facts.pod, observed)),
        }
    }
}

/// Whether the present sandbox holds a regular container.
fn has_begun(pod: &Pod, observed: &ObservedPod) -> bool {
    let present = observed.sandboxes.first().filter(|sandbox| sandbox.state == SandboxState::Ready);
    present.is_some_and(|sandbox| {
        let inside = observed.containers.iter().filter(|status| status.sandbox_id == sandbox.id);
        inside
            .into_iter()
            .any(|status| pod.spec.containers.iter().any(|container| container.name == status.name))
    })
}

/// The phase that container statuses add up to.
#[must_use]
pub fn phase(
    pod: &Pod,
    init: &[ContainerStatus],
    regular: &[ContainerStatus],
    surroundings: &Surroundings,
) -> Phase {
    let initialisation = Initialisation::of(pod, init);
    let counts = Counts::of(pod, init, regular);
    if initialisation.failed > 0 {
        return Phase::Failed;
    }
    let sidecars_hold = counts.pending_sidecars > 0 && !surroundings.initialized;
    if initialisation.pending > 0 || sidecars_hold || counts.waiting > 0 {
        return Phase::Pending;
    }
    if counts.unknown > 0 {
        return Phase::Pending;
    }
    if counts.running > 0 {
        return Phase::Running;
    }
    if counts.stopped == 0 {
        return Phase::Pending;
    }
    // Static pods that were stopped are not said to be over: their manifest may bring them back.
    let for_good = surroundings.over && !pod.is_static();
    if !for_good && counts.restarting > 0 {
        Phase::Running
    } else if counts.stopped == counts.succeeded {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}

/// Init containers that are no sidecars.
#[derive(Default)]
struct Initialisation {
    pending: usize,
    failed: usize,
}

impl Initialisation {
    fn of(pod: &Pod, statuses: &[ContainerStatus]) -> Self {
        let mut found = Self::default();
        for container in pod.spec.init_containers.iter().flatten().filter(|entry| !is_sidecar(entry)) {
            match life(statuses, container) {
                Life::Running | Life::Waiting | Life::Unknown => found.pending += 1,
                Life::Stopped(end) if end.code != 0 => {
                    found.failed += usize::from(!end.restarts(pod, container));
                }
                Life::Stopped(_) => {}
            }
        }
        found
    }
}

/// Regular containers, and sidecars as far as they count.
#[derive(Default)]
struct Counts {
    running: usize,
    waiting: usize,
    stopped: usize,
    restarting: usize,
    succeeded: usize,
    unknown: usize,
    pending_sidecars: usize,
}

impl Counts {
    fn of(pod: &Pod, init: &[ContainerStatus], regular: &[ContainerStatus]) -> Self {
        let mut counts = Self::default();
        for container in pod.spec.init_containers.iter().flatten().filter(|entry| is_sidecar(entry)) {
            match life(init, container) {
                Life::Running => {
                    let status = init.iter().find(|status| status.name == container.name);
                    let started = status.is_some_and(|status| status.started == Some(true));
                    counts.pending_sidecars += usize::from(!started);
                    counts.running += 1;
                }
                // A sidecar's end says nothing about the pod.
                Life::Stopped(_) => {}
                Life::Waiting => {
                    counts.pending_sidecars += 1;
                    counts.waiting += 1;
                }
                Life::Unknown => counts.unknown += 1,
            }
        }
        for container in &pod.spec.containers {
            match life(regular, container) {
                Life::Running => counts.running += 1,
                Life::Waiting => counts.waiting += 1,
                Life::Unknown => counts.unknown += 1,
                Life::Stopped(end) => {
                    counts.stopped += 1;
                    counts.restarting += usize::from(end.restarts(pod, container));
                    counts.succeeded += usize::from(end.code == 0 && end.is_present);
                }
            }
        }
        counts
    }
}

enum Life {
    Running,
    Waiting,
    Stopped(End),
    Unknown,
}

struct End {
    code: i32,
    /// Whether it is the container's state rather than that of the one before.
    is_present: bool,
    for_restart_of_all: bool,
}

impl End {
    fn restarts(&self, pod: &Pod, container: &Container) -> bool {
        self.for_restart_of_all || restarts_after(pod, container, self.code)
    }
}

fn life(statuses: &[ContainerStatus], container: &Container) -> Life {
    let Some(status) = statuses.iter().find(|status| status.name == container.name) else {
        return Life::Unknown;
    };
    let Some(state) = &status.state else { return Life::Unknown };
    let end = |ended: &k8s_openapi::api::core::v1::ContainerStateTerminated, is_present| {
        Life::Stopped(End {
            code: ended.exit_code,
            is_present,
            for_restart_of_all: ended.reason.as_deref() == Some("RestartingAllContainers"),
        })
    };
    let before = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    match (&state.running, &state.terminated, &state.waiting) {
        (Some(_), _, _) => Life::Running,
        (None, Some(ended), _) => end(ended, true),
        (None, None, Some(_)) => before.map_or(Life::Waiting, |ended| end(ended, false)),
        (None, None, None) => Life::Unknown,
    }
}
