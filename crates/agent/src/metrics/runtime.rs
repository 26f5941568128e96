//! Calls to the runtime, and cgroups.

use std::time::Duration;

use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram, exponential};

const CALLS: [f64; 14] = exponential(0.005, 2.5);

metrics_group! {
    RuntimeMetrics {
        operations: Family<Counter, 1> = Family::new(["operation_type"]),
            "kubelet_runtime_operations_total", "Finished calls to the runtime";
        errors: Family<Counter, 1> = Family::new(["operation_type"]),
            "kubelet_runtime_operations_errors_total", "Failed calls to the runtime";
        duration: Family<Histogram, 1> = Family::histograms(["operation_type"], &CALLS),
            "kubelet_runtime_operations_duration_seconds", "Duration of calls to the runtime";
        sandbox_duration: Family<Histogram, 1> = Family::histograms(["runtime_handler"], DEFAULT_BUCKETS),
            "kubelet_run_podsandbox_duration_seconds", "Duration of sandbox creation, by runtime handler";
        sandbox_errors: Family<Counter, 1> = Family::new(["runtime_handler"]),
            "kubelet_run_podsandbox_errors_total", "Failed sandbox creations, by runtime handler";
        pub cgroup_duration: Family<Histogram, 1> = Family::histograms(["operation_type"], DEFAULT_BUCKETS),
            "kubelet_cgroup_manager_duration_seconds", "Duration of creating, updating or destroying a cgroup";
        losing_support: Family<Gauge, 1> = Family::new(["version"]),
            "kubelet_cri_losing_support", "Kubernetes version from which on the runtime is not supported";
    }
}

impl RuntimeMetrics {
    pub(super) fn call_ended(&self, operation: &str, took: Duration, failed: bool) {
        self.operations.inc([operation]);
        self.duration.observe([operation], took);
        if failed {
            self.errors.inc([operation]);
        }
    }

    /// The runtime does not report its cgroup driver, which Kubernetes requires from 1.37 on.
    pub fn lacks_config(&self) {
        self.losing_support.get(["1.37.0"]).set(1.0);
    }

    pub fn sandbox_run(&self, handler: &str, took: Duration, failed: bool) {
        self.sandbox_duration.observe([handler], took);
        if failed {
            self.sandbox_errors.inc([handler]);
        }
    }
}
