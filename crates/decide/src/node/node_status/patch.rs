//! The difference between two Nodes as a strategic merge patch of the status subresource.

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use serde_json::{Map, Value, json};

/// Whether anything but the heartbeat times differs.
pub fn has_changed(current: &Node, desired: &Node) -> bool {
    let without_times = |node: &Node| {
        let mut node = node.clone();
        let conditions = node.status.iter_mut().filter_map(|status| status.conditions.as_mut()).flatten();
        conditions.for_each(|condition| condition.last_heartbeat_time = None);
        node
    };
    status_patch(&without_times(current), &without_times(desired)) != json!({})
}

/// The patch from `current` to `desired`: labels, annotations and status. Conditions are merged by type, so those of
/// other writers are kept.
pub fn status_patch(current: &Node, desired: &Node) -> Value {
    let mut patch = Map::new();
    let metadata = |node: &Node| {
        let (labels, annotations) = (&node.metadata.labels, &node.metadata.annotations);
        json!({ "labels": labels.clone().unwrap_or_default(), "annotations": annotations.clone().unwrap_or_default() })
    };
    patch.extend(
        difference(&metadata(current), &metadata(desired)).map(|found| ("metadata".to_owned(), found)),
    );
    let none = NodeStatus::default();
    let (old, new) = (current.status.as_ref().unwrap_or(&none), desired.status.as_ref().unwrap_or(&none));
    let mut status = match difference(&without_keyed_lists(old), &without_keyed_lists(new)) {
        Some(Value::Object(found)) => found,
        Some(_) | None => Map::new(),
    };
    if old.addresses != new.addresses {
        // The API merges addresses by type, which loses the second address of a type.
        let addresses = new.addresses.iter().flatten().map(|address| json!(address));
        let addresses: Vec<Value> = addresses.chain([json!({ "$patch": "replace" })]).collect();
        status.insert("addresses".to_owned(), addresses.into());
    }
    let conditions: Vec<Value> = new_conditions(old, new).map(|condition| json!(condition)).collect();
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), conditions.into());
    }
    if !status.is_empty() {
        patch.insert("status".to_owned(), status.into());
    }
    Value::Object(patch)
}

fn new_conditions<'a>(old: &'a NodeStatus, new: &'a NodeStatus) -> impl Iterator<Item = &'a NodeCondition> {
    let current = old.conditions.as_deref().unwrap_or_default();
    new.conditions.iter().flatten().filter(|condition| !current.contains(condition))
}

/// The status without the lists that the API server merges by key.
fn without_keyed_lists(status: &NodeStatus) -> Value {
    json!(NodeStatus { addresses: None, conditions: None, ..status.clone() })
}

/// Members of `new` that differ, and null for removed ones; lists are replaced as a whole.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut found = Map::new();
    for (key, value) in after {
        match before.get(key) {
            None => drop(found.insert(key.clone(), value.clone())),
            Some(current) => found.extend(difference(current, value).map(|inner| (key.clone(), inner))),
        }
    }
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    found.extend(removed.map(|key| (key.clone(), Value::Null)));
    (!found.is_empty()).then_some(Value::Object(found))
}
