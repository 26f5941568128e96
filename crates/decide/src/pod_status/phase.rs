use k8s_openapi::api::core::v1::ContainerStatus;
use model::Pod;

use crate::pod_actions::{RestartPolicy, is_sidecar, restart_policy};

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

/// The phase that container statuses add up to. `over` says that nothing will be started any more.
#[must_use]
pub fn phase(pod: &Pod, init: &[ContainerStatus], regular: &[ContainerStatus], over: bool) -> Phase {
    let counts = Counts::of(pod, regular);
    match init_state(pod, init, counts.any_ran()) {
        Init::Failed => return Phase::Failed,
        Init::Pending if over && !counts.any_ran() => return Phase::Failed,
        Init::Pending => return Phase::Pending,
        Init::Done => {}
    }
    let policy = restart_policy(pod);
    if over && counts.running == 0 {
        // What never ran was stopped before it could succeed.
        let all_well = counts.waiting == 0 && counts.unknown == 0 && counts.stopped == counts.succeeded;
        return if all_well { Phase::Succeeded } else { Phase::Failed };
    }
    if counts.waiting > 0 {
        Phase::Pending
    } else if counts.running > 0 && counts.unknown == 0 {
        Phase::Running
    } else if counts.running == 0 && counts.stopped > 0 && counts.unknown == 0 {
        match policy {
            RestartPolicy::Always => Phase::Running,
            RestartPolicy::OnFailure | RestartPolicy::Never if counts.stopped == counts.succeeded => {
                Phase::Succeeded
            }
            RestartPolicy::Never => Phase::Failed,
            RestartPolicy::OnFailure => Phase::Running,
        }
    } else {
        Phase::Pending
    }
}

#[derive(Default)]
struct Counts {
    running: usize,
    waiting: usize,
    stopped: usize,
    succeeded: usize,
    unknown: usize,
}

impl Counts {
    fn of(pod: &Pod, statuses: &[ContainerStatus]) -> Self {
        let mut counts = Self::default();
        for container in &pod.spec.containers {
            let state = statuses.iter().find(|status| status.name == container.name).map(life);
            match state {
                None => counts.unknown += 1,
                Some(Life::Running) => counts.running += 1,
                Some(Life::Waiting) => counts.waiting += 1,
                Some(Life::Stopped { code }) => {
                    counts.stopped += 1;
                    counts.succeeded += usize::from(code == 0);
                }
            }
        }
        counts
    }

    fn any_ran(&self) -> bool {
        self.running + self.stopped > 0
    }
}

enum Life {
    Running,
    Waiting,
    Stopped { code: i32 },
}

fn life(status: &ContainerStatus) -> Life {
    let now = status.state.as_ref();
    let before = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    if now.is_some_and(|state| state.running.is_some()) {
        Life::Running
    } else if let Some(ended) = now.and_then(|state| state.terminated.as_ref()) {
        Life::Stopped { code: ended.exit_code }
    } else if let Some(ended) = before {
        Life::Stopped { code: ended.exit_code }
    } else {
        Life::Waiting
    }
}

enum Init {
    Done,
    Pending,
    Failed,
}

fn init_state(pod: &Pod, statuses: &[ContainerStatus], past_init: bool) -> Init {
    for container in pod.spec.init_containers.iter().flatten() {
        let state = statuses.iter().find(|status| status.name == container.name).map(life);
        match state {
            _ if is_sidecar(container) && past_init => {}
            Some(Life::Running) if is_sidecar(container) => {}
            Some(Life::Stopped { code: 0 }) if !is_sidecar(container) => {}
            Some(Life::Stopped { .. }) if !is_sidecar(container) => {
                let never = restart_policy(pod) == RestartPolicy::Never;
                return if never { Init::Failed } else { Init::Pending };
            }
            Some(_) | None if past_init => {}
            Some(_) | None => return Init::Pending,
        }
    }
    Init::Done
}
