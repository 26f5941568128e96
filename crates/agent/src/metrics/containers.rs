//! Containers.

use model::ContainerKind;

use super::series::{Counter, Family};

metrics_group! {
    ContainerMetrics {
        started: Family<Counter, 1> = Family::new(["container_type"]),
            "kubelet_started_containers_total", "Attempts to start a container";
        start_errors: Family<Counter, 2> = Family::new(["code", "container_type"]),
            "kubelet_started_containers_errors_total", "Failed attempts to start a container, by reason";
        terminated: Family<Counter, 3> = Family::new(["container_type", "exit_code", "reason"]),
            "kubelet_terminated_containers_total", "Terminated containers";
    }
}

impl ContainerMetrics {
    pub fn started(&self, kind: ContainerKind) {
        self.started.inc([word(kind)]);
    }

    /// `reason` is the reason of the waiting state.
    pub fn start_failed(&self, kind: ContainerKind, reason: &str) {
        self.start_errors.inc([reason, word(kind)]);
    }

    pub fn terminated(&self, kind: ContainerKind, exit_code: i32, reason: &str) {
        self.terminated.inc([word(kind), &exit_code.to_string(), reason]);
    }
}

fn word(kind: ContainerKind) -> &'static str {
    match kind {
        ContainerKind::Init => "init_container",
        ContainerKind::Regular => "container",
        ContainerKind::Ephemeral => "ephemeral_container",
    }
}
