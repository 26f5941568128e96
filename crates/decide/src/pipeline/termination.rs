//! The order in which the containers of a pod are stopped.

use model::Pod;

use crate::pipeline::pod_actions::is_sidecar;

/// Containers that must have exited before this one is stopped: a sidecar waits for all regular containers and for the
/// sidecar that started after it. The wait counts towards the pod's grace period.
pub fn containers_to_stop_first<'a>(pod: &'a Pod, name: &str) -> Vec<&'a str> {
    let mut sidecars = pod
        .spec
        .init_containers
        .iter()
        .flatten()
        .filter(|container| is_sidecar(container))
        .skip_while(|container| container.name != name);
    if sidecars.next().is_none() {
        return Vec::new();
    }
    let regular = pod.spec.containers.iter();
    regular.chain(sidecars.next()).map(|container| container.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::pod;

    #[test]
    fn sidecars_stop_after_regular_containers_in_reverse_order() {
        let pod = pod(serde_json::json!({
            "initContainers": [
                {"name": "first", "restartPolicy": "Always"},
                {"name": "plain"},
                {"name": "second", "restartPolicy": "Always"},
            ],
            "containers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}]}));
        assert_eq!(containers_to_stop_first(&pod, "second"), ["a", "b"]);
        assert_eq!(containers_to_stop_first(&pod, "first"), ["a", "b", "second"]);
        for unordered in ["a", "b", "plain", "unknown"] {
            assert!(containers_to_stop_first(&pod, unordered).is_empty(), "{unordered}");
        }
    }
}
