use serde_json::{Value, json};

use super::*;
use crate::pod_resources::resources::pod_requests_with_overhead;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

const MI: i64 = 1 << 20;

fn with(reservation: MemoryReservation) -> NodeSettings {
    let mut settings = settings();
    settings.cgroups.memory_qos = Some(MemoryQos { throttling_factor: 0.9, reservation, page_size: 4096 });
    settings.resources.capacity = [("memory".to_owned(), 1000 * MI)].into();
    settings.resources.kube_reserved = [("memory".to_owned(), 100 * MI)].into();
    settings.resources.system_reserved = [("memory".to_owned(), 300 * MI)].into();
    settings
}

fn resources(request: &str, limit: &str) -> Value {
    let mut all = json!({"requests": {}, "limits": {}});
    for (kind, value) in [("requests", request), ("limits", limit)] {
        if !value.is_empty() {
            all[kind] = json!({"memory": value});
        }
    }
    all
}

fn check(resources: &Value, settings: &NodeSettings, expected: &[(&str, &str)]) {
    let pod = pod(json!({"containers": [{"name": "c", "resources": resources}]}));
    let expected = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(container_settings(&pod, &pod.spec.containers[0], settings), expected, "{resources}");
}

#[test]
fn burstable_memory_is_protected_softly_and_throttled_near_its_limit() {
    let settings = with(MemoryReservation::Tiered);
    check(&resources("64Mi", "128Mi"), &settings, &[(LOW, "67108864"), (HIGH, "127504384")]);
    // Without a limit the memory of all pods counts: 64Mi + (600Mi - 64Mi) * 0.9.
    check(&resources("64Mi", ""), &settings, &[(LOW, "67108864"), (HIGH, "572940288")]);
    // The bound lies below the request.
    check(&resources("700Mi", ""), &settings, &[(LOW, "734003200")]);
}

#[test]
fn guaranteed_memory_is_protected_and_never_throttled() {
    let full = json!({"requests": {"memory": "64Mi", "cpu": "1"}, "limits": {"memory": "64Mi", "cpu": "1"}});
    check(&full, &with(MemoryReservation::Tiered), &[(MIN, "67108864")]);
    check(&full, &with(MemoryReservation::None), &[(MIN, "0"), (LOW, "0")]);
}

#[test]
fn container_without_request_or_policy_is_not_protected() {
    check(&resources("", ""), &with(MemoryReservation::Tiered), &[(MIN, "0"), (LOW, "0")]);
    let none = with(MemoryReservation::None);
    check(&resources("64Mi", "128Mi"), &none, &[(MIN, "0"), (LOW, "0"), (HIGH, "127504384")]);
    let mut off = with(MemoryReservation::Tiered);
    off.cgroups.memory_qos = None;
    check(&resources("64Mi", "128Mi"), &off, &[]);
}

#[test]
fn pod_cgroup_protects_requests_with_overhead() {
    let protection = |spec: Value, reservation| {
        let pod = pod(spec);
        pod_protection(&pod, &pod_requests_with_overhead(&pod), &with(reservation))
    };
    let burstable = json!({"containers": [{"name": "c", "resources": resources("64Mi", "")}],
        "overhead": {"memory": "1Mi"}});
    let full = json!({"memory": "2Mi", "cpu": "1"});
    let guaranteed = json!({"containers": [{"name": "c", "resources": {"requests": full, "limits": full}}]});
    let tiered = MemoryReservation::Tiered;
    assert_eq!(protection(burstable.clone(), tiered), (None, Some(65 * MI)));
    assert_eq!(protection(burstable, MemoryReservation::None), (None, None));
    assert_eq!(protection(guaranteed, tiered), (Some(2 * MI), None));
    assert_eq!(protection(json!({"containers": [{"name": "c"}]}), tiered), (None, None));
}

#[test]
fn parents_protect_the_requests_of_their_pods() {
    let requests = QosRequests { burstable_cpu: 5, burstable_memory: 10, guaranteed_memory: 7 };
    let found = |reservation| {
        let found = qos_protection(requests, &with(reservation)).unwrap();
        (found.all.memory_min, found.burstable.memory_low, found.guaranteed_bytes, found.burstable_bytes)
    };
    assert_eq!(found(MemoryReservation::Tiered), (Some(17), Some(10), 7, 10));
    assert_eq!(found(MemoryReservation::None), (Some(0), Some(0), 0, 0));
    assert_eq!(qos_protection(requests, &settings()), None);
}
