//! Memory on particular NUMA nodes.

use super::series::Counter;

metrics_group! {
    MemoryMetrics {
        requests: Counter = Counter::default(),
            "kubelet_memory_manager_pinning_requests_total", "Requests of containers for memory on NUMA nodes";
        errors: Counter = Counter::default(),
            "kubelet_memory_manager_pinning_errors_total", "Failed requests of containers for memory on NUMA nodes";
    }
}

impl MemoryMetrics {
    pub(crate) fn allocated(&self, is_failed: bool) {
        self.requests.inc();
        self.errors.add(u64::from(is_failed));
    }
}
