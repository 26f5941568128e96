use std::cmp::Ordering;

use model::{PodSource, SwapBehavior, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::pod_paths::tests::settings;
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
fn a_pod_runs_with_what_was_granted() {
    let granted = resources_of(&one(requests("1", "1Gi")));
    let asked = one(requests("2", "1Gi"));
    let pod = granted_pod(&asked, &granted).unwrap();
    assert_eq!(pod.spec.containers[0].resources, one(requests("1", "1Gi")).spec.containers[0].resources);
    assert_eq!(granted_pod(&pod, &granted), None);
    // The same amounts in other words are no difference.
    assert_eq!(granted_pod(&one(requests("1000m", "1024Mi")), &granted), None);
}

#[test]
fn nothing_and_an_empty_list_are_the_same() {
    let granted = resources_of(&one(json!({})));
    assert_eq!(granted_pod(&one(json!({"limits": {}, "requests": {}})), &granted), None);
    assert!(granted_pod(&one(requests("1", "0")), &granted).is_some());
    assert!(!has_any(&granted) && has_any(&resources_of(&one(requests("1", "1")))));
}

#[test]
fn containers_that_are_new_have_what_they_ask_for() {
    let granted = resources_of(&one(requests("1", "1Gi")));
    let more = test_objects::pod(json!({
        "containers": [container("main", requests("1", "1Gi")), container("side", requests("5", "5Gi"))],
    }));
    assert_eq!(granted_pod(&more, &granted), None);
}

#[test]
fn pod_level_and_init_resources_are_granted_too() {
    let pod = |cpu: &str| {
        test_objects::pod(json!({
            "containers": [{"name": "main"}],
            "initContainers": [container("init", requests(cpu, "1Gi"))],
            "resources": {"limits": {"cpu": cpu}},
        }))
    };
    let granted = granted_pod(&pod("2"), &resources_of(&pod("1"))).unwrap();
    assert_eq!(granted.spec, pod("1").spec);
    assert!(is_resize(&pod("1"), &pod("2")));
    assert!(!is_resize(&pod("1"), &pod("1000m")));
}

#[test]
fn only_cpu_and_memory_make_a_resize() {
    let storage = |size: &str| one(json!({"requests": {"ephemeral-storage": size}}));
    assert!(!is_resize(&storage("1Gi"), &storage("2Gi")));
    assert!(is_resize(&one(requests("1", "1Gi")), &one(requests("1", "2Gi"))));
    // A container that is gone is no reason to stumble.
    let other = test_objects::pod(json!({"containers": [container("other", requests("1", "1Gi"))]}));
    assert!(!is_resize(&one(requests("1", "1Gi")), &other));
}

#[test]
fn waiting_resizes_have_an_order() {
    let now = Timestamp::from_nanos;
    let granted = one(requests("1", "1Gi"));
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
    let resize = |asked, allocation| WaitingResize { asked, granted: &granted, allocation };
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
fn memory_of_swapping_containers_cannot_change_in_place() {
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
    let refusal = |policy: &Value, node: &NodeSettings| {
        infeasible(&pod("2Gi", policy.clone()), &pod("1Gi", policy.clone()), node)
    };
    let swap = refusal(&in_place, &node).unwrap();
    assert_eq!(swap.message(), "In-place resize of containers with swap is not supported.");
    assert_eq!(swap.label(), "swap_limitation");
    assert_eq!(refusal(&restart, &node), None);
    assert_eq!(refusal(&in_place, &settings()), None);
    assert_eq!(infeasible(&pod("1Gi", in_place.clone()), &pod("1Gi", in_place), &node), None);
}

#[test]
fn the_pods_own_resources_change_with_their_gate_alone() {
    let pod = |cpu: &str| {
        let main = container("main", requests("1", "1Gi"));
        test_objects::pod(json!({"containers": [main], "resources": {"requests": {"cpu": cpu}}}))
    };
    let mut node = settings();
    assert_eq!(infeasible(&pod("3"), &pod("2"), &node), None);
    node.gates.pod_level_resize = false;
    let refusal = infeasible(&pod("3"), &pod("2"), &node).unwrap();
    assert_eq!(refusal.message(), "InPlacePodLevelResourcesVerticalScaling is disabled");
    assert_eq!(refusal.label(), "plr_feature_gate_off");
    assert_eq!(infeasible(&pod("2"), &pod("2"), &node), None);
}

#[test]
fn conditions_tell_what_is_new_once() {
    let now = Timestamp::from_nanos;
    let mut own = PodAllocation::default();
    let mut pending = |reason, message: &str, generation, at| {
        let news = set_pending(&mut own, reason, message.to_owned(), generation, now(at));
        (news, own.pending.clone().unwrap().since)
    };
    assert_eq!(pending(PendingReason::Deferred, "full", 1, 1), (News::Yes, now(1)));
    assert_eq!(pending(PendingReason::Deferred, "still full", 1, 2), (News::No, now(1)));
    assert_eq!(pending(PendingReason::Deferred, "full", 2, 3), (News::Yes, now(1)));
    assert_eq!(pending(PendingReason::Infeasible, "never", 2, 4), (News::Yes, now(4)));
    clear_pending(&mut own);
    assert_eq!(own, PodAllocation::default());

    set_in_progress(&mut own, 7, now(5));
    assert_eq!(set_in_progress_error(&mut own, "no".into(), 8, now(6)), News::Yes);
    assert_eq!(set_in_progress_error(&mut own, "no".into(), 9, now(7)), News::No);
    // An error stays until the resize is over, and so does the generation that asked.
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
fn events_carry_the_resources_as_upstream_writes_them() {
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
fn conditions_stand_in_the_status_while_they_hold() {
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
