//! In which order the containers of a pod are stopped.

use model::Pod;

use crate::pod_actions::is_sidecar;

/// Containers that must have ended before the stop signal is sent to this one: a sidecar waits for all regular
/// containers and for the sidecar that started after it. The wait is part of the pod's grace.
#[must_use]
pub fn ends_after<'a>(pod: &'a Pod, name: &str) -> Vec<&'a str> {
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
    fn sidecars_end_after_the_regular_ones_in_reverse_order() {
        let pod = pod(serde_json::json!({
            "initContainers": [
                {"name": "first", "restartPolicy": "Always"},
                {"name": "plain"},
                {"name": "second", "restartPolicy": "Always"},
            ],
            "containers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}]}));
        assert_eq!(ends_after(&pod, "second"), ["a", "b"]);
        assert_eq!(ends_after(&pod, "first"), ["a", "b", "second"]);
        for free in ["a", "b", "plain", "unknown"] {
            assert!(ends_after(&pod, free).is_empty(), "{free}");
        }
    }
}
