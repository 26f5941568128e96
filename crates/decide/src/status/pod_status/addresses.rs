//! Pod and host addresses of a pod status.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, PodIP, PodStatus};
use model::ObservedPod;

use super::{ContainerStatuses, PodStatusInputs};
use crate::runtime_spec::environment::ordered_pod_ips;

pub(super) fn fill(inputs: &PodStatusInputs<'_>, statuses: &ContainerStatuses, status: &mut PodStatus) {
    let hosts = &inputs.node.addresses;
    status.host_ip = hosts.first().map(ToString::to_string);
    status.host_ips =
        (!hosts.is_empty()).then(|| hosts.iter().map(|ip| HostIP { ip: ip.to_string() }).collect());
    let ips = if inputs.pod.is_host_network() {
        host_network_ips(inputs, statuses)
    } else {
        pod_network_ips(inputs)
    };
    status.pod_ip = ips.first().cloned();
    status.pod_ips = (!ips.is_empty()).then(|| ips.into_iter().map(|ip| PodIP { ip }).collect());
}

fn pod_network_ips(inputs: &PodStatusInputs<'_>) -> Vec<String> {
    let observed = inputs.observed.map(ObservedPod::ips).unwrap_or_default();
    let sorted = ordered_pod_ips(observed, inputs.node.addresses.first());
    if !sorted.is_empty() {
        return sorted;
    }
    // A stopped pod keeps its last address.
    let old = inputs.previous.and_then(|previous| previous.pod_ips.as_ref());
    old.into_iter().flatten().map(|ip| ip.ip.clone()).collect()
}

/// The node's addresses at the last container start or exit, because running containers may have bound to them. If the
/// node gets an address of a second family later, it is added.
fn host_network_ips(inputs: &PodStatusInputs<'_>, statuses: &ContainerStatuses) -> Vec<String> {
    let reported = inputs.own.filter(|own| is_unchanged(own, statuses)).and_then(|own| own.pod_ips.as_ref());
    let mut ips: Vec<String> = reported.into_iter().flatten().map(|ip| ip.ip.clone()).collect();
    let mut hosts = inputs.node.addresses.iter();
    let (first, second) = (hosts.next(), hosts.next());
    if ips.is_empty() {
        ips.extend(first.map(ToString::to_string));
    }
    if let ([only], Some(second)) = (ips.as_slice(), second)
        && only.parse().is_ok_and(|only: IpAddr| only.is_ipv6() != second.is_ipv6())
    {
        ips.push(second.to_string());
    }
    ips
}

/// Whether the same containers are in the same states as in an earlier status.
fn is_unchanged(earlier: &PodStatus, now: &ContainerStatuses) -> bool {
    let pairs = [
        (&earlier.init_container_statuses, &now.init),
        (&earlier.container_statuses, &now.regular),
        (&earlier.ephemeral_container_statuses, &now.ephemeral),
    ];
    pairs
        .into_iter()
        .all(|(earlier, now)| earlier.iter().flatten().map(fingerprint).eq(now.iter().map(fingerprint)))
}

fn fingerprint(status: &ContainerStatus) -> (&str, Option<&str>, bool, bool) {
    let state = status.state.as_ref();
    let runs = state.is_some_and(|state| state.running.is_some());
    let ended = state.is_some_and(|state| state.terminated.is_some());
    (&status.name, status.container_id.as_deref(), runs, ended)
}

#[cfg(test)]
mod tests {
    use model::{ContainerState, SandboxState};

    use super::*;
    use crate::status::pod_status::tests::inputs;
    use crate::status::pod_status::{PodStatusNodeInputs, pod_status};
    use crate::test_objects::{container, observed, pod, sandbox};

    fn node(addresses: &[&str]) -> PodStatusNodeInputs {
        let addresses = addresses.iter().map(|one| one.parse().unwrap()).collect();
        PodStatusNodeInputs { addresses, ..PodStatusNodeInputs::default() }
    }

    fn ips(status: &PodStatus) -> Vec<&str> {
        status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str()).collect()
    }

    #[test]
    fn host_network_pod_keeps_addresses_until_container_changes() {
        let pod = pod(serde_json::json!({"hostNetwork": true, "containers": [{"name": "a", "image": "x"}]}));
        let at = |id: &str, addresses: &[&str], own: Option<&PodStatus>| {
            let running = container(id, "a", 0, ContainerState::Running);
            let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![running]);
            let node = node(addresses);
            pod_status(&PodStatusInputs { own, previous: own, ..inputs(&pod, &seen, &node) })
        };
        let first = at("c1", &["10.0.0.1"], None);
        assert_eq!(ips(&first), ["10.0.0.1"]);
        let moved = at("c1", &["10.0.0.2"], Some(&first));
        assert_eq!(ips(&moved), ["10.0.0.1"]);
        assert_eq!((moved.pod_ip.as_deref(), moved.host_ip.as_deref()), (Some("10.0.0.1"), Some("10.0.0.2")));
        let dual = at("c1", &["10.0.0.2", "fd00::2"], Some(&moved));
        assert_eq!(ips(&dual), ["10.0.0.1", "fd00::2"]);
        assert_eq!(ips(&at("c1", &["fd00::2", "10.0.0.2"], Some(&first))), ["10.0.0.1"]);
        assert_eq!(ips(&at("c2", &["10.0.0.2"], Some(&dual))), ["10.0.0.2"]);
    }

    #[test]
    fn host_network_pod_ignores_addresses_of_previous_agent() {
        let pod = pod(serde_json::json!({"hostNetwork": true, "containers": [{"name": "a", "image": "x"}]}));
        let seen = observed(vec![], vec![]);
        let before = pod_status(&inputs(&pod, &seen, &node(&["10.0.0.1"])));
        let now = pod_status(&PodStatusInputs {
            previous: Some(&before),
            ..inputs(&pod, &seen, &node(&["10.0.0.2"]))
        });
        assert_eq!(ips(&now), ["10.0.0.2"]);
    }
}
