use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn status(value: Value) -> PodStatus {
    serde_json::from_value(value).unwrap()
}

/// Applies a patch the way the API server does.
fn apply_patch(old: &Value, patch: &Value) -> Value {
    let Value::Object(fields) = patch else { return patch.clone() };
    let mut merged = old.as_object().cloned().unwrap_or_default();
    for (field, change) in fields {
        match (field.as_str(), change) {
            (_, Value::Null) => {
                merged.remove(field);
            }
            ("conditions" | "podIPs" | "hostIPs", Value::Array(changes)) => {
                let key = if field == "conditions" { "type" } else { "ip" };
                let list = merged.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
                merged.insert(field.clone(), Value::Array(apply_list_patch(key, list, changes)));
            }
            (_, Value::Object(_)) => {
                let before = merged.get(field).cloned().unwrap_or(Value::Object(Map::new()));
                merged.insert(field.clone(), apply_patch(&before, change));
            }
            (_, change) => {
                merged.insert(field.clone(), change.clone());
            }
        }
    }
    Value::Object(merged)
}

fn apply_list_patch(key: &str, mut list: Vec<Value>, changes: &[Value]) -> Vec<Value> {
    for change in changes {
        match change.get("$patch").and_then(Value::as_str) {
            Some("replace") => list.clear(),
            Some("delete") => list.retain(|entry| entry.get(key) != change.get(key)),
            Some(other) => panic!("{other}"),
            None => match list.iter_mut().find(|entry| entry.get(key) == change.get(key)) {
                Some(entry) => *entry = apply_patch(entry, change),
                None => list.push(change.clone()),
            },
        }
    }
    list
}

fn patched(old: &PodStatus, patch: &Value) -> PodStatus {
    serde_json::from_value(apply_patch(&serde_json::to_value(old).unwrap(), &patch["status"])).unwrap()
}

#[test]
fn patch_contains_only_changed_fields() {
    let old = status(json!({
        "phase": "Pending",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "m"},
            {"type": "PodScheduled", "status": "True"},
            {"type": "PodResizePending", "status": "True"},
        ],
        "podIPs": [{"ip": "10.0.0.1"}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
    }));
    let new = status(json!({
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "PodScheduled", "status": "True"},
            {"type": "Initialized", "status": "True"},
        ],
        "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}],
        "resources": {"requests": {"cpu": "2"}},
    }));
    let patch = status_patch(&"u".into(), &old, &new).unwrap();
    let expected = json!({
        "metadata": {"uid": "u"},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True", "reason": null, "message": null},
                {"type": "Initialized", "status": "True"},
                {"type": "PodResizePending", "$patch": "delete"},
            ],
            "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.2"}, {"ip": "fd00::2"}],
            "resources": {"requests": {"cpu": "2"}, "limits": null},
        },
    });
    assert_eq!(patch, expected);
    assert!(is_same(&patched(&old, &patch), &new));
}

#[test]
fn equivalent_statuses_need_no_patch() {
    let cases = [
        (json!({}), json!({"conditions": [], "resources": {}})),
        (
            json!({"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}),
            json!({"conditions": [{"type": "B", "status": "True"}, {"type": "A", "status": "True"}]}),
        ),
        (
            json!({"containerStatuses": [
                {"name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 0},
            ]}),
            json!({"containerStatuses": [
                {"name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "lastState": {}},
            ]}),
        ),
    ];
    for (old, new) in cases {
        assert_eq!(status_patch(&"u".into(), &status(old.clone()), &status(new.clone())), None);
        assert_eq!(status_patch(&"u".into(), &status(new), &status(old)), None);
    }
}

fn any_status() -> impl Strategy<Value = PodStatus> {
    let word = prop::sample::select(vec!["a", "b", "c"]);
    let condition =
        (prop::sample::select(vec!["Ready", "X", "Y"]), word.clone(), prop::option::of(word.clone()))
            .prop_map(|(kind, status, reason)| json!({"type": kind, "status": status, "reason": reason}));
    let conditions = prop::collection::vec(condition, 0..4).prop_map(|mut list| {
        list.sort_by_key(|entry| entry["type"].to_string());
        list.dedup_by_key(|entry| entry["type"].to_string());
        list
    });
    let container = (word.clone(), any::<bool>(), 0..3).prop_map(|(name, ready, count)| {
        json!({"name": name, "image": "i", "imageID": "", "ready": ready, "restartCount": count,
            "state": if ready { json!({"running": {}}) } else { json!({"waiting": {"reason": "r"}}) }})
    });
    let ips = prop::sample::subsequence(vec!["1.1.1.1", "2.2.2.2"], 0..3)
        .prop_shuffle()
        .prop_map(|ips| ips.into_iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>());
    let requests = prop::collection::btree_map(word.clone(), prop::sample::select(vec!["1", "2"]), 0..3);
    (prop::option::of(word.clone()), conditions, prop::collection::vec(container, 0..3), ips, requests)
        .prop_map(|(phase, conditions, containers, ips, requests)| {
            status(json!({"phase": phase, "conditions": conditions, "containerStatuses": containers,
                "podIPs": ips, "resources": {"requests": requests}}))
        })
}

proptest! {
    #[test]
    fn patch_turns_old_status_into_new_one(old in any_status(), new in any_status()) {
        match status_patch(&"u".into(), &old, &new) {
            Some(patch) => {
                let result = patched(&old, &patch);
                prop_assert!(is_same(&result, &new), "{patch} made {result:?}");
                prop_assert!(!is_same(&old, &new));
            }
            None => prop_assert!(is_same(&old, &new)),
        }
    }

    #[test]
    fn unchanged_status_needs_no_patch(status in any_status()) {
        prop_assert_eq!(status_patch(&"u".into(), &status, &status.clone()), None);
    }
}
