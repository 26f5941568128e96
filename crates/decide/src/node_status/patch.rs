//! The difference between two forms of a Node, as a strategic merge patch of its status subresource.

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeStatus};
use serde_json::{Map, Value, json};

/// Whether anything but the time of the last look differs.
#[must_use]
pub fn has_changed(known: &Node, wanted: &Node) -> bool {
    let without_times = |node: &Node| {
        let mut node = node.clone();
        let conditions = node.status.iter_mut().filter_map(|status| status.conditions.as_mut()).flatten();
        conditions.for_each(|condition| condition.last_heartbeat_time = None);
        node
    };
    status_patch(&without_times(known), &without_times(wanted)) != json!({})
}

/// What turns `known` into `wanted`: labels, annotations and status. Conditions are merged by type, so that those of
/// others stay.
#[must_use]
pub fn status_patch(known: &Node, wanted: &Node) -> Value {
    let mut patch = Map::new();
    let metadata = |node: &Node| {
        let (labels, annotations) = (&node.metadata.labels, &node.metadata.annotations);
        json!({ "labels": labels.clone().unwrap_or_default(), "annotations": annotations.clone().unwrap_or_default() })
    };
    patch.extend(difference(&metadata(known), &metadata(wanted)).map(|found| ("metadata".to_owned(), found)));
    let none = NodeStatus::default();
    let (old, new) = (known.status.as_ref().unwrap_or(&none), wanted.status.as_ref().unwrap_or(&none));
    let mut status = match difference(&plain(old), &plain(new)) {
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
    let known = old.conditions.as_deref().unwrap_or_default();
    new.conditions.iter().flatten().filter(|condition| !known.contains(condition))
}

/// The status without what is merged by key.
fn plain(status: &NodeStatus) -> Value {
    json!(NodeStatus { addresses: None, conditions: None, ..status.clone() })
}

/// Members of `new` that differ, and null for those that are gone; lists are replaced as a whole.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut found = Map::new();
    for (key, value) in after {
        match before.get(key) {
            None => drop(found.insert(key.clone(), value.clone())),
            Some(known) => found.extend(difference(known, value).map(|inner| (key.clone(), inner))),
        }
    }
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    found.extend(gone.map(|key| (key.clone(), Value::Null)));
    (!found.is_empty()).then_some(Value::Object(found))
}
