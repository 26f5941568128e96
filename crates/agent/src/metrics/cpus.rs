//! Exclusive CPUs.

use std::collections::BTreeMap;

use decide::cpus::{AllocationReport, CpuAllocator};

use super::series::{Counter, Family, Gauge, to_gauge};

const NUMA_NODE: &str = "numa_node";
const CORES: [&str; 2] = ["container", "physical_cpu"];
const UNCORE_CACHE: [&str; 2] = ["container", "uncore_cache"];

metrics_group! {
    CpuMetrics {
        requests: Counter = Counter::default(),
            "kubelet_cpu_manager_pinning_requests_total", "Requests of containers for exclusive CPUs";
        errors: Counter = Counter::default(),
            "kubelet_cpu_manager_pinning_errors_total", "Failed requests of containers for exclusive CPUs";
        shared_pool: Gauge = Gauge::default(),
            "kubelet_cpu_manager_shared_pool_size_millicores",
            "CPUs that no container owns, without the reserved ones";
        exclusive: Gauge = Gauge::default(),
            "kubelet_cpu_manager_exclusive_cpu_allocation_count", "CPUs that containers own";
        per_numa_node: Family<Gauge, 1> = Family::new(["numa_node"]),
            "kubelet_cpu_manager_allocation_per_numa", "CPUs that containers own, by NUMA node";
        aligned: Family<Counter, 2> = Family::new(["scope", "boundary"]),
            "kubelet_container_aligned_compute_resources_count",
            "Containers whose resources are aligned, by scope and boundary";
        aligned_failures: Family<Counter, 2> = Family::new(["scope", "boundary"]),
            "kubelet_container_aligned_compute_resources_failure_count",
            "Containers whose resources could not be aligned, by scope and boundary";
    }
}

impl CpuMetrics {
    /// Shows series with 0, like upstream.
    pub(crate) fn alignment_started(&self) {
        for scope in ["container", "pod"] {
            self.aligned.get([scope, NUMA_NODE]).add(0);
            self.aligned_failures.get([scope, NUMA_NODE]).add(0);
        }
    }

    /// Counts resources that come from one NUMA node, or that could not. `scope`: `container` or `pod`.
    pub(crate) fn numa_aligned(&self, scope: &'static str, result: Result<(), ()>) {
        let series = match result {
            Ok(()) => &self.aligned,
            Err(()) => &self.aligned_failures,
        };
        series.get([scope, NUMA_NODE]).inc();
    }

    /// Shows series with 0, like upstream.
    pub(crate) fn policy_started(&self) {
        for series in
            [self.aligned.get(CORES), self.aligned.get(UNCORE_CACHE), self.aligned_failures.get(CORES)]
        {
            series.add(0);
        }
    }

    /// `is_aligned`: containers get whole cores.
    pub(crate) fn allocated(&self, report: AllocationReport, is_aligned: bool, is_failed: bool) {
        self.requests.add(report.requests);
        self.aligned.get(UNCORE_CACHE).add(report.uncore_aligned);
        let failures = u64::from(is_failed);
        self.errors.add(failures);
        if is_aligned {
            self.aligned_failures.get(CORES).add(failures);
            self.aligned.get(CORES).add(report.requests.saturating_sub(failures));
        }
    }

    pub(crate) fn show(&self, allocator: &CpuAllocator) {
        let (policy, assignments) = (allocator.policy(), allocator.assignments());
        let assigned = assignments.assigned();
        self.shared_pool.set(to_gauge(policy.available(assignments).len()) * 1000.0);
        self.exclusive.set_count(assigned.len());
        let mut by_node: BTreeMap<i32, usize> = BTreeMap::new();
        for (cpu, location) in &policy.topology().cpus {
            *by_node.entry(location.numa_node).or_default() += usize::from(assigned.contains(*cpu));
        }
        for (node, count) in by_node {
            self.per_numa_node.get([&node.to_string()]).set_count(count);
        }
    }
}
