use std::cmp::Ordering;

use model::{PodSource, SwapBehavior, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects;

#[expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]
fn container(name: &str, resources: Value) -> Value {
    json!({"name": name, "resources": resources})
}

fn one(resources: Value) -> Pod {
    test_objects::pod(json!({"containers": [container("main", resources)]}))
}

fn requests(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}

#[test]
fn pod_runs_with_allocated_resources() {
    let allocated = resources_of(&one(requests("1", "1Gi")));
    let desired = one(requests("2", "1Gi"));
    let pod = allocated_pod(&desired, &allocated).unwrap();
    assert_eq!(pod.spec.containers[0].resources, one(requests("1", "1Gi")).spec.containers[0].resources);
    assert_eq!(allocated_pod(&pod, &allocated), None);
    // Equal amounts in another notation are not a difference.
    assert_eq!(allocated_pod(&one(requests("1000m", "1024Mi")), &allocated), None);
}

#[test]
fn missing_and_empty_lists_are_equal() {
    let allocated = resources_of(&one(json!({})));
    assert_eq!(allocated_pod(&one(json!({"limits": {}, "requests": {}})), &allocated), None);
    assert!(allocated_pod(&one(requests("1", "0")), &allocated).is_some());
    assert!(
        !has_resizable_resources(&allocated)
            && has_resizable_resources(&resources_of(&one(requests("1", "1"))))
    );
}

#[test]
fn new_containers_keep_resources_of_spec() {
    let allocated = resources_of(&one(requests("1", "1Gi")));
    let more = test_objects::pod(json!({
        "containers": [container("main", requests("1", "1Gi")), container("side", requests("5", "5Gi"))],
    }));
    assert_eq!(allocated_pod(&more, &allocated), None);
}

#[test]
fn allocation_covers_pod_level_and_init_containers() {
    let pod = |cpu: &str| {
        test_objects::pod(json!({
            "containers": [{"name": "main"}],
            "initContainers": [container("init", requests(cpu, "1Gi"))],
            "resources": {"limits": {"cpu": cpu}},
        }))
    };
    let allocated = allocated_pod(&pod("2"), &resources_of(&pod("1"))).unwrap();
    assert_eq!(allocated.spec, pod("1").spec);
    assert!(is_resize(&pod("1"), &pod("2")));
    assert!(!is_resize(&pod("1"), &pod("1000m")));
}

#[test]
fn only_cpu_and_memory_changes_are_a_resize() {
    let storage = |size: &str| one(json!({"requests": {"ephemeral-storage": size}}));
    assert!(!is_resize(&storage("1Gi"), &storage("2Gi")));
    assert!(is_resize(&one(requests("1", "1Gi")), &one(requests("1", "2Gi"))));
    // A container that was removed is ignored.
    let other = test_objects::pod(json!({"containers": [container("other", requests("1", "1Gi"))]}));
    assert!(!is_resize(&one(requests("1", "1Gi")), &other));
}

#[test]
fn pending_resizes_are_ordered() {
    let now = Timestamp::from_nanos;
    let allocated = one(requests("1", "1Gi"));
    let with = |pod: &Pod, priority: i32| {
        let mut pod = pod.clone();
        pod.spec.priority = Some(priority);
        pod
    };
    let more = with(&one(requests("2", "1Gi")), 0);
    let less = with(&one(requests("500m", "1Gi")), 0);
    let urgent = with(&more, 10);
    let guaranteed =
        one(json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}));
    let waits = |since| {
        let mut allocation = PodAllocation::default();
        set_pending(&mut allocation, PendingReason::Deferred, String::new(), 1, now(since));
        allocation
    };
    let (old, young, never) = (waits(1), waits(2), PodAllocation::default());
    let resize = |desired, allocation| PendingResize { desired, allocated: &allocated, allocation };
    let order = [
        resize(&less, &young),
        resize(&urgent, &young),
        resize(&guaranteed, &young),
        resize(&more, &old),
        resize(&more, &young),
        resize(&more, &never),
    ];
    for (index, first) in order.iter().enumerate() {
        for second in &order[index + 1..] {
            assert_eq!(resize_order(first, second), Ordering::Less, "{index}");
            assert_eq!(resize_order(second, first), Ordering::Greater, "{index}");
        }
    }
}

#[test]
fn memory_resize_of_swapping_container_is_infeasible() {
    let mut node = settings();
    node.cgroups.swap_behavior = SwapBehavior::LimitedSwap;
    let pod = |memory: &str, policy: Value| {
        let mut own = container("main", requests("1", memory));
        own["resizePolicy"] = policy;
        let mut pod = test_objects::pod(json!({"containers": [own]}));
        pod.source = PodSource::Api;
        pod
    };
    let in_place = json!([]);
    let restart = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    let reason = |policy: &Value, node: &NodeSettings| {
        infeasible(&pod("2Gi", policy.clone()), &pod("1Gi", policy.clone()), node)
    };
    let swap = reason(&in_place, &node).unwrap();
    assert_eq!(swap.message(), "In-place resize of containers with swap is not supported.");
    assert_eq!(swap.label(), "swap_limitation");
    assert_eq!(reason(&restart, &node), None);
    assert_eq!(reason(&in_place, &settings()), None);
    assert_eq!(infeasible(&pod("1Gi", in_place.clone()), &pod("1Gi", in_place), &node), None);
}

#[test]
fn pod_level_resize_needs_feature_gate() {
    let pod = |cpu: &str| {
        let main = container("main", requests("1", "1Gi"));
        test_objects::pod(json!({"containers": [main], "resources": {"requests": {"cpu": cpu}}}))
    };
    let mut node = settings();
    assert_eq!(infeasible(&pod("3"), &pod("2"), &node), None);
    node.gates.pod_level_resize = false;
    let reason = infeasible(&pod("3"), &pod("2"), &node).unwrap();
    assert_eq!(reason.message(), "InPlacePodLevelResourcesVerticalScaling is disabled");
    assert_eq!(reason.label(), "plr_feature_gate_off");
    assert_eq!(infeasible(&pod("2"), &pod("2"), &node), None);
}

#[test]
fn condition_updates_report_changes_once() {
    let now = Timestamp::from_nanos;
    let mut own = PodAllocation::default();
    let mut pending = |reason, message: &str, generation, at| {
        let update = set_pending(&mut own, reason, message.to_owned(), generation, now(at));
        (update, own.pending.clone().unwrap().since)
    };
    assert_eq!(pending(PendingReason::Deferred, "full", 1, 1), (ConditionUpdate::Changed, now(1)));
    assert_eq!(pending(PendingReason::Deferred, "still full", 1, 2), (ConditionUpdate::Unchanged, now(1)));
    assert_eq!(pending(PendingReason::Deferred, "full", 2, 3), (ConditionUpdate::Changed, now(1)));
    assert_eq!(pending(PendingReason::Infeasible, "never", 2, 4), (ConditionUpdate::Changed, now(4)));
    clear_pending(&mut own);
    assert_eq!(own, PodAllocation::default());

    set_in_progress(&mut own, 7, now(5));
    assert_eq!(set_in_progress_error(&mut own, "no".into(), 8, now(6)), ConditionUpdate::Changed);
    assert_eq!(set_in_progress_error(&mut own, "no".into(), 9, now(7)), ConditionUpdate::Unchanged);
    // The error and the generation stay until the resize has completed.
    set_in_progress(&mut own, 9, now(8));
    let condition = own.in_progress.clone().unwrap();
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str(), condition.since),
        ("Error", "no", now(6))
    );
    assert_eq!(clear_in_progress(&mut own), Some(7));
    assert_eq!(clear_in_progress(&mut own), None);
}

#[test]
fn resize_events_match_upstream_format() {
    let mut pod = one(json!({"requests": {"memory": "1Gi", "cpu": "1"}, "limits": {"cpu": "2"}}));
    assert_eq!(
        started_message(&pod, 3),
        r#"Pod resize started: {"containers":[{"name":"main","resources":{"limits":{"cpu":"2"},"requests":{"cpu":"1","memory":"1Gi"}}}],"generation":3}"#
    );
    assert_eq!(
        pending_message(&pod, PendingReason::Deferred, "a \"b\" <c>", 3),
        r#"Pod resize Deferred: {"containers":[{"name":"main","resources":{"limits":{"cpu":"2"},"requests":{"cpu":"1","memory":"1Gi"}}}],"generation":3,"error":"a \"b\" \u003cc\u003e"}"#
    );
    pod.spec.init_containers = Some(std::mem::take(&mut pod.spec.containers));
    pod.spec.containers = one(json!({})).spec.containers;
    assert_eq!(
        completed_message(&pod, 0),
        r#"Pod resize completed: {"initContainers":[{"name":"main","resources":{"limits":{"cpu":"2"},"requests":{"cpu":"1","memory":"1Gi"}}}],"containers":[{"name":"main","resources":{}}],"generation":0}"#
    );
}

#[test]
fn resize_conditions_appear_in_status() {
    let now = Timestamp::from_nanos(1_000_000_000);
    let mut own = PodAllocation::default();
    assert_eq!(resize_conditions(&own), []);
    set_pending(&mut own, PendingReason::Deferred, "full".into(), 2, now);
    set_in_progress(&mut own, 0, now);
    let found = resize_conditions(&own);
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.type_.as_str(), one.reason.as_deref(), one.observed_generation))
        .collect();
    assert_eq!(found, [("PodResizePending", Some("Deferred"), Some(2)), ("PodResizeInProgress", None, None)]);
}
