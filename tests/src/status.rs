//! A pod's status as flat values.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// The fields of a pod that scenarios check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    pub name: String,
    pub uid: String,
    /// Empty before the first status.
    pub phase: String,
    /// Empty while there is none.
    pub ip: String,
    /// In the order of the status.
    pub containers: Vec<ContainerState>,
}

/// The fields of a container that scenarios check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerState {
    pub name: String,
    /// Runtime ID with its scheme.
    pub id: String,
    pub restarts: i32,
    /// `running`, `waiting` or `terminated`.
    pub state: String,
    pub reason: String,
    /// Exit code of the current termination, else of the last one.
    pub exit_code: Option<i32>,
    pub ready: bool,
    /// Start of the running container, in seconds since 1970.
    pub started_at: i64,
}

impl PodView {
    pub fn container(&self, name: &str) -> ContainerState {
        self.containers.iter().find(|container| container.name == name).cloned().unwrap_or_default()
    }

    pub fn all_running(&self) -> bool {
        let all = self.containers.iter().all(|container| container.state == "running");
        self.phase == "Running" && !self.containers.is_empty() && all
    }
}

pub fn view(pod: &Pod) -> PodView {
    let status = pod.status.clone().unwrap_or_default();
    PodView {
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        phase: status.phase.unwrap_or_default(),
        ip: status.pod_ip.unwrap_or_default(),
        containers: status.container_statuses.unwrap_or_default().iter().map(container).collect(),
    }
}

fn container(status: &ContainerStatus) -> ContainerState {
    let state = status.state.clone().unwrap_or_default();
    let last = status.last_state.clone().unwrap_or_default();
    let ended = state.terminated.as_ref().or(last.terminated.as_ref());
    let word = match (&state.running, &state.terminated) {
        (Some(_), _) => "running",
        (None, Some(_)) => "terminated",
        (None, None) => "waiting",
    };
    let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
    let terminated = state.terminated.as_ref().and_then(|terminated| terminated.reason.clone());
    ContainerState {
        name: status.name.clone(),
        id: status.container_id.clone().unwrap_or_default(),
        restarts: status.restart_count,
        state: word.to_owned(),
        reason: waiting.or(terminated).unwrap_or_default(),
        exit_code: ended.map(|ended| ended.exit_code),
        ready: status.ready,
        started_at: state.running.and_then(|running| running.started_at).map_or(0, |time| time.0.as_second()),
    }
}
