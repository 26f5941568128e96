//! Resizes of pods.

use std::time::Duration;

use super::bounds::RESIZE;
use super::series::{Counter, Family, Histogram};

metrics_group! {
    /// Resizes of pods.
    ResizeMetrics {
        requested: Family<Counter, 3> = Family::new(["operation", "requirement", "resource"]),
            "kubelet_container_requested_resizes_total", "Changes of containers' resources that were asked for";
        duration: Family<Histogram, 1> = Family::histograms(["success"], RESIZE),
            "kubelet_pod_resize_duration_milliseconds", "Time to put a resize in force";
        infeasible: Family<Counter, 1> = Family::new(["reason_detail"]),
            "kubelet_pod_infeasible_resizes_total", "Resizes that this node can never grant, by reason";
        accepted: Family<Counter, 1> = Family::new(["retry_trigger"]),
            "kubelet_pod_deferred_accepted_resizes_total", "Resizes that were granted after a wait, by what made room";
    }
}

impl ResizeMetrics {
    /// A change was asked for: of `resource` in `requirement`, which means `operation`.
    pub fn requested(&self, resource: &str, requirement: &str, operation: &str) {
        self.requested.get([operation, requirement, resource]).inc();
    }

    /// A resize was put in force, or could not be.
    pub fn ended(&self, took: Duration, success: bool) {
        let success = if success { "true" } else { "false" };
        self.duration.get([success]).observe(took.as_secs_f64() * 1000.0);
    }

    /// A resize can never be granted.
    pub fn infeasible(&self, reason: &str) {
        self.infeasible.get([reason]).inc();
    }

    /// A resize that waited was granted.
    pub fn accepted(&self, trigger: &str) {
        self.accepted.get([trigger]).inc();
    }
}
