//! Pods that the node or the cluster depends on.
//!
//! Upstream has two rules (`pkg/kubelet/types/pod_update.go`), and this module has one function for each:
//!
//! | rule | used for |
//! |---|---|
//! | [`is_critical`] (`IsCriticalPod`) | admission under node pressure, preemption, eviction, swap |
//! | [`is_node_critical`] (`IsNodeCriticalPod`) | the OOM score |
//!
//! Node shutdown uses neither: it groups pods by their priority alone, and [`SYSTEM_CRITICAL_PRIORITY`] is the boundary
//! of its two default groups.

use model::{Pod, labels};

/// Lowest priority of the system priority classes (`SystemCriticalPriority`).
pub const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

const NODE_CRITICAL_CLASS: &str = "system-node-critical";

/// Static pods, mirror pods and pods of system priority.
///
/// Such a pod is admitted under node pressure, preempts other pods if resources are short, is never evicted and never
/// swaps.
pub fn is_critical(pod: &Pod) -> bool {
    pod.is_static()
        || pod.annotation(labels::CONFIG_MIRROR).is_some()
        || pod.spec.priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
}

/// Critical pods of the class `system-node-critical`: the kernel kills them as late as Guaranteed pods.
///
/// The class counts, not its priority (2000001000): a pod cannot have the class with another priority, unless it is a
/// static pod.
pub fn is_node_critical(pod: &Pod) -> bool {
    is_critical(pod) && pod.spec.priority_class_name.as_deref() == Some(NODE_CRITICAL_CLASS)
}

#[cfg(test)]
mod tests {
    use model::PodSource;
    use serde_json::json;

    use super::*;
    use crate::test_objects::pod;

    fn api_pod(priority: Option<i32>, class: Option<&str>) -> Pod {
        let mut pod = pod(json!({"containers": [], "priority": priority, "priorityClassName": class}));
        pod.source = PodSource::Api;
        pod
    }

    #[test]
    fn critical_pods_are_static_mirror_or_of_system_priority() {
        assert!(!is_critical(&api_pod(None, None)));
        assert!(!is_critical(&api_pod(Some(SYSTEM_CRITICAL_PRIORITY - 1), None)));
        assert!(is_critical(&api_pod(Some(SYSTEM_CRITICAL_PRIORITY), None)));
        assert!(is_critical(&pod(json!({"containers": []}))), "static pod");
        let mut mirror = api_pod(None, None);
        mirror.metadata.annotations = Some([(labels::CONFIG_MIRROR.to_owned(), "hash".to_owned())].into());
        assert!(is_critical(&mirror), "mirror pod");
    }

    #[test]
    fn node_critical_pods_need_the_class_and_must_be_critical() {
        assert!(is_node_critical(&api_pod(Some(2_000_001_000), Some(NODE_CRITICAL_CLASS))));
        assert!(!is_node_critical(&api_pod(Some(2_000_001_000), None)));
        assert!(!is_node_critical(&api_pod(Some(2_000_000_000), Some("system-cluster-critical"))));
        assert!(!is_node_critical(&api_pod(None, Some(NODE_CRITICAL_CLASS))));
    }
}
