//! Admission of managed resources: CPUs, memory and devices.

use std::time::Duration;

use super::bounds::TOPOLOGY_ADMISSION;
use super::series::{Counter, Histogram};

metrics_group! {
    TopologyMetrics {
        requests: Counter = Counter::default(),
            "kubelet_topology_manager_admission_requests_total", "Pods that the topology manager checked";
        errors: Counter = Counter::default(),
            "kubelet_topology_manager_admission_errors_total", "Pods that the topology manager rejected";
        duration: Histogram = Histogram::new(TOPOLOGY_ADMISSION),
            "kubelet_topology_manager_admission_duration_ms", "Milliseconds of the topology manager's checks";
    }
}

impl TopologyMetrics {
    /// Whole milliseconds, like upstream.
    pub(crate) fn checked(&self, took: Duration) {
        self.requests.inc();
        let milliseconds = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
        self.duration.observe(f64::from(milliseconds));
    }

    pub(crate) fn failed(&self) {
        self.errors.inc();
    }
}
