//! Containers.

use model::ContainerKind;

use super::series::{Counter, Family};

metrics_group! {
    /// Starts and ends of containers.
    ContainerMetrics {
        started: Family<Counter, 1> = Family::new(["container_type"]),
            "kubelet_started_containers_total", "Containers that were tried to start";
        start_errors: Family<Counter, 2> = Family::new(["code", "container_type"]),
            "kubelet_started_containers_errors_total", "Containers that could not be started, by reason";
        terminated: Family<Counter, 3> = Family::new(["container_type", "exit_code", "reason"]),
            "kubelet_terminated_containers_total", "Containers that were seen to end";
    }
}

impl ContainerMetrics {
    /// A start was tried.
    pub fn started(&self, kind: ContainerKind) {
        self.started.get([word(kind)]).inc();
    }

    /// A start failed for the reason that the container's waiting state shows.
    pub fn start_failed(&self, kind: ContainerKind, reason: &str) {
        self.start_errors.get([reason, word(kind)]).inc();
    }

    /// A container ended.
    pub fn terminated(&self, kind: ContainerKind, exit_code: i32, reason: &str) {
        self.terminated.get([word(kind), &exit_code.to_string(), reason]).inc();
    }
}

fn word(kind: ContainerKind) -> &'static str {
    match kind {
        ContainerKind::Init => "init_container",
        ContainerKind::Regular => "container",
        ContainerKind::Ephemeral => "ephemeral_container",
    }
}
