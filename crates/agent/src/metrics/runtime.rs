//! Calls to the runtime, and cgroups.

use std::time::Duration;

use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram, exponential};

const CALLS: [f64; 14] = exponential(0.005, 2.5);

metrics_group! {
    /// Calls to the runtime, and cgroups.
    RuntimeMetrics {
        operations: Family<Counter, 1> = Family::new(["operation_type"]),
            "kubelet_runtime_operations_total", "Calls to the runtime that ended";
        errors: Family<Counter, 1> = Family::new(["operation_type"]),
            "kubelet_runtime_operations_errors_total", "Calls to the runtime that failed";
        duration: Family<Histogram, 1> = Family::histograms(["operation_type"], &CALLS),
            "kubelet_runtime_operations_duration_seconds", "Time of calls to the runtime";
        sandbox_duration: Family<Histogram, 1> = Family::histograms(["runtime_handler"], DEFAULT_BUCKETS),
            "kubelet_run_podsandbox_duration_seconds", "Time to make a sandbox, by runtime handler";
        sandbox_errors: Family<Counter, 1> = Family::new(["runtime_handler"]),
            "kubelet_run_podsandbox_errors_total", "Sandboxes that the runtime could not make, by runtime handler";
        cgroup_duration: Family<Histogram, 1> = Family::histograms(["operation_type"], DEFAULT_BUCKETS),
            "kubelet_cgroup_manager_duration_seconds", "Time to create, update or destroy a cgroup";
        losing_support: Family<Gauge, 1> = Family::new(["version"]),
            "kubelet_cri_losing_support", "Whether the runtime lacks what Kubernetes needs from a version on";
    }
}

impl RuntimeMetrics {
    /// One call ended.
    pub(super) fn call_ended(&self, operation: &str, took: Duration, failed: bool) {
        self.operations.get([operation]).inc();
        self.duration.get([operation]).observe(took.as_secs_f64());
        if failed {
            self.errors.get([operation]).inc();
        }
    }

    /// The runtime cannot tell its cgroup driver, which Kubernetes needs from 1.37 on.
    pub fn lacks_config(&self) {
        self.losing_support.get(["1.37.0"]).set(1.0);
    }

    /// A sandbox was made, or not.
    pub fn sandbox_run(&self, handler: &str, took: Duration, failed: bool) {
        self.sandbox_duration.get([handler]).observe(took.as_secs_f64());
        if failed {
            self.sandbox_errors.get([handler]).inc();
        }
    }

    /// Something was done to a cgroup: `create`, `update` or `destroy`.
    pub fn cgroup_changed(&self, operation: &str, took: Duration) {
        self.cgroup_duration.get([operation]).observe(took.as_secs_f64());
    }
}
