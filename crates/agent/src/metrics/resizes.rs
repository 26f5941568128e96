//! Resizes of pods.

use std::time::Duration;

use super::bounds::RESIZE;
use super::series::{Counter, Family, Histogram};

metrics_group! {
    ResizeMetrics {
        pub requested: Family<Counter, 3> = Family::new(["operation", "requirement", "resource"]),
            "kubelet_container_requested_resizes_total", "Requested changes of container resources";
        duration: Family<Histogram, 1> = Family::histograms(["success"], RESIZE),
            "kubelet_pod_resize_duration_milliseconds", "Duration of actuating a resize";
        pub infeasible: Family<Counter, 1> = Family::new(["reason_detail"]),
            "kubelet_pod_infeasible_resizes_total", "Infeasible resizes, by reason";
        pub accepted: Family<Counter, 1> = Family::new(["retry_trigger"]),
            "kubelet_pod_deferred_accepted_resizes_total", "Deferred resizes that were accepted later, by trigger";
    }
}

impl ResizeMetrics {
    /// The actuation of a resize ended.
    pub fn ended(&self, took: Duration, success: bool) {
        let success = if success { "true" } else { "false" };
        self.duration.get([success]).observe(took.as_secs_f64() * 1000.0);
    }
}
