//! Swap limits of containers.

use k8s_openapi::api::core::v1::Container;
use model::{CgroupVersion, NodeSettings, Pod, SwapBehavior};

use super::{limits_of, requests_of};
use crate::pod_resources::critical_pods::is_critical;
use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::quantity::amount_in;

/// Whether this container may swap: it is in a Burstable pod that is not critical, its memory request differs from its
/// limit, and the kernel can limit swap.
pub fn may_swap(pod: &Pod, container: &Container, settings: &NodeSettings) -> bool {
    match settings.cgroups.swap_behavior {
        SwapBehavior::NoSwap => false,
        SwapBehavior::LimitedSwap => {
            let resources = container.resources.as_ref();
            let request = amount_in(requests_of(resources), "memory");
            let limit = amount_in(limits_of(resources), "memory");
            settings.capabilities.swap_controller
                && settings.capabilities.cgroup_version == CgroupVersion::V2
                && !is_critical(pod)
                && pod_qos_class(pod) == QosClass::Burstable
                && request != limit
        }
    }
}

/// Swap limit in bytes: the node's swap in proportion to the container's share of the node's memory.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the same arithmetic as upstream's"
)]
pub fn swap_limit(pod: &Pod, container: &Container, settings: &NodeSettings) -> i64 {
    let request = amount_in(requests_of(container.resources.as_ref()), "memory").units();
    let memory = i64::try_from(settings.memory_capacity).unwrap_or(i64::MAX);
    if !may_swap(pod, container, settings) || memory <= 0 || request > memory {
        return 0;
    }
    (request as f64 / memory as f64 * settings.cgroups.swap as f64) as i64
}

#[cfg(test)]
mod tests {
    use model::PodSource;
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime_spec::pod_paths::tests::settings;
    use crate::test_objects::pod;

    fn node() -> NodeSettings {
        let mut settings = settings();
        settings.cgroups.swap = 4 << 30;
        settings.cgroups.swap_behavior = SwapBehavior::LimitedSwap;
        settings
    }

    /// Swap limit of the only container of an API pod.
    #[expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]
    fn limit(resources: Value, settings: &NodeSettings) -> i64 {
        let mut pod = pod(json!({"containers": [{"name": "c", "resources": resources}]}));
        pod.source = PodSource::Api;
        swap_limit(&pod, &pod.spec.containers[0], settings)
    }

    fn request() -> Value {
        json!({"requests": {"memory": "1Gi"}})
    }

    #[test]
    fn swap_limit_is_proportional_to_memory_request() {
        // 1 of 8 GiB of memory: an eighth of 4 GiB of swap.
        assert_eq!(limit(request(), &node()), 512 << 20);
        assert_eq!(
            limit(json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}), &node()),
            512 << 20
        );
        assert_eq!(limit(json!({"requests": {"memory": "9Gi"}}), &node()), 0);
    }

    #[test]
    fn other_containers_may_not_swap() {
        assert_eq!(limit(json!({}), &node()), 0, "BestEffort");
        assert_eq!(limit(json!({"requests": {"cpu": "1"}}), &node()), 0, "no memory");
        let pinned = json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}});
        assert_eq!(limit(pinned, &node()), 0, "request is limit");
        let off = NodeSettings { cgroups: Default::default(), ..node() };
        assert_eq!(limit(request(), &off), 0, "NoSwap");
        let mut v1 = node();
        v1.capabilities.cgroup_version = CgroupVersion::V1;
        assert_eq!(limit(request(), &v1), 0, "v1");
        let mut without = node();
        without.capabilities.swap_controller = false;
        assert_eq!(limit(request(), &without), 0, "no controller");
        let pod = pod(json!({"containers": [{"name": "c", "resources": request()}]}));
        assert_eq!(swap_limit(&pod, &pod.spec.containers[0], &node()), 0, "static pods are critical");
    }
}
