//! How many pods start at the same time, and which of them do not wait for the others.

use model::{Pod, StartUrgency};

use crate::pod_resources::critical_pods::SYSTEM_CRITICAL_PRIORITY;

/// The classes whose pods are critical even if nothing has set their priority, as on a node without an API server.
const CRITICAL_CLASSES: [&str; 2] = ["system-node-critical", "system-cluster-critical"];

/// Four per CPU, and at least eight: a start also waits for disks.
pub fn max_parallel_starts(cpus: usize) -> usize {
    cpus.saturating_mul(4).max(8)
}

/// Critical and host-network pods are urgent: other pods may depend on them, for example on a network plugin or a proxy.
///
/// That a pod is static is no reason: on a node without an API server all pods are.
pub fn start_urgency(pod: &Pod) -> StartUrgency {
    let class = pod.spec.priority_class_name.as_deref();
    let is_critical = pod.spec.priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
        || class.is_some_and(|class| CRITICAL_CLASSES.contains(&class));
    match is_critical || pod.is_host_network() {
        true => StartUrgency::Urgent,
        false => StartUrgency::Ordinary,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_objects::pod;

    #[test]
    fn grows_with_cpus_and_is_at_least_eight() {
        for (cpus, starts) in [(0, 8), (1, 8), (2, 8), (3, 12), (64, 256)] {
            assert_eq!(max_parallel_starts(cpus), starts, "{cpus} processors");
        }
    }

    #[test]
    fn critical_and_host_network_pods_are_urgent() {
        for (spec, expected) in [
            (json!({}), StartUrgency::Ordinary),
            (json!({"priority": 1_000_000_000}), StartUrgency::Ordinary),
            (json!({"priority": 2_000_000_000}), StartUrgency::Urgent),
            (json!({"priorityClassName": "system-node-critical"}), StartUrgency::Urgent),
            (json!({"priorityClassName": "high"}), StartUrgency::Ordinary),
            (json!({"hostNetwork": true}), StartUrgency::Urgent),
        ] {
            assert_eq!(start_urgency(&pod(spec.clone())), expected, "{spec}");
        }
    }
}
