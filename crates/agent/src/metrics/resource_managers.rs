//! Where containers get CPUs and memory from (gate `PodLevelResourceManagers`).

use super::series::{Counter, Family};

metrics_group! {
    ResourceManagerMetrics {
        allocations: Family<Counter, 2> = Family::new(["resource_name", "source"]),
            "resource_manager_allocations_total", "Allocations of CPUs and memory, from the node or from the container's pod";
        errors: Family<Counter, 2> = Family::new(["resource_name", "source"]),
            "resource_manager_allocation_errors_total", "Failed allocations of CPUs and memory";
        assignments: Family<Counter, 2> = Family::new(["resource_name", "assignment_type"]),
            "resource_manager_container_assignments", "Containers with CPUs and memory, by owner";
    }
}

impl ResourceManagerMetrics {
    pub(crate) fn node_allocated(&self, resource: &'static str, containers: u64, is_failed: bool) {
        if containers > 0 {
            self.allocations.get([resource, "node"]).add(containers);
            self.assignments.get([resource, "node_exclusive"]).add(containers);
        }
        self.count_error([resource, "node"], is_failed);
    }

    /// Containers with parts for themselves, and those that share the rest of their pod.
    pub(crate) fn pod_allocated(
        &self,
        resource: &'static str,
        (exclusive, shared): (u64, u64),
        is_failed: bool,
    ) {
        if exclusive + shared > 0 {
            self.allocations.get([resource, "pod"]).add(exclusive + shared);
        }
        for (kind, containers) in [("pod_exclusive", exclusive), ("pod_shared", shared)] {
            if containers > 0 {
                self.assignments.get([resource, kind]).add(containers);
            }
        }
        self.count_error([resource, "pod"], is_failed);
    }

    fn count_error(&self, labels: [&'static str; 2], is_failed: bool) {
        if is_failed {
            self.errors.get(labels).inc();
        }
    }
}
