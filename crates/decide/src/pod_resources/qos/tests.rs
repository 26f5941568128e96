#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::*;
use crate::test_objects::pod;

fn check(spec: Value, expected: QosClass) {
    assert_eq!(qos_class(&pod(spec.clone()).spec), expected, "{spec}");
}

fn container(resources: Value) -> Value {
    json!({"name": "c", "image": "i", "resources": resources})
}

#[test]
fn no_requests_is_best_effort() {
    check(json!({"containers": [container(json!({}))]}), QosClass::BestEffort);
    check(json!({"containers": [container(json!({"requests": {"cpu": "0"}}))]}), QosClass::BestEffort);
    let other = json!({"requests": {"ephemeral-storage": "1Gi"}});
    check(json!({"containers": [container(other)]}), QosClass::BestEffort);
}

#[test]
fn equal_requests_and_limits_are_guaranteed() {
    let full =
        json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}});
    check(json!({"containers": [container(full.clone()), container(full.clone())]}), QosClass::Guaranteed);
    check(
        json!({"initContainers": [container(json!({}))], "containers": [container(full)]}),
        QosClass::Burstable,
    );
}

#[test]
fn anything_between_is_burstable() {
    for resources in [
        json!({"requests": {"cpu": "1"}}),
        json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}),
        json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}),
        json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
    ] {
        check(json!({"containers": [container(resources)]}), QosClass::Burstable);
    }
}

#[test]
fn pod_level_resources_override_containers() {
    let full = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    check(json!({"resources": full, "containers": [container(json!({}))]}), QosClass::Guaranteed);
    let requests_only = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    check(json!({"resources": requests_only, "containers": [container(full)]}), QosClass::Burstable);
}

#[test]
fn class_in_status_takes_precedence() {
    let mut pod = pod(json!({"containers": [container(json!({}))]}));
    pod.status.qos_class = Some("Burstable".into());
    assert_eq!(pod_qos_class(&pod), QosClass::Burstable);
    pod.status.qos_class = Some(String::new());
    assert_eq!(pod_qos_class(&pod), QosClass::BestEffort);
    assert_eq!(QosClass::Guaranteed.as_str(), "Guaranteed");
}
