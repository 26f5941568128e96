//! The smallest strategic merge patch that turns the pod status at the API server into ours.
//!
//! Maps are merged field by field, and `null` removes a field. Lists are replaced as a whole, except for those that
//! the API merges by key: conditions by type, addresses by IP.

use k8s_openapi::api::core::v1::PodStatus;
use model::PodUid;
use serde_json::{Map, Value, json};

/// How the API server merges a list field of the status.
enum MergeStrategy {
    /// Element by element, matched by this field.
    ByKey(&'static str),
    /// The API merges by key, but order matters: the first address is the primary one. The patch replaces the list.
    Ordered,
    Replace,
}

fn merge_strategy(field: &str) -> MergeStrategy {
    match field {
        "conditions" => MergeStrategy::ByKey("type"),
        "podIPs" | "hostIPs" => MergeStrategy::Ordered,
        _ => MergeStrategy::Replace,
    }
}

/// The patch from `old` to `new`, with the UID as precondition; `None` when nothing changed.
pub fn status_patch(uid: &PodUid, old: &PodStatus, new: &PodStatus) -> Option<Value> {
    let changes = changes(old, new);
    (!changes.is_empty()).then(|| json!({"metadata": {"uid": uid.as_str()}, "status": changes}))
}

/// Whether a patch between the two statuses would be empty.
pub fn is_same(one: &PodStatus, other: &PodStatus) -> bool {
    changes(one, other).is_empty()
}

fn changes(old: &PodStatus, new: &PodStatus) -> Map<String, Value> {
    map_changes(&fields(old), &fields(new))
}

fn fields(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        // Unreachable: a status always serializes to an object.
        Ok(_) | Err(_) => Map::new(),
    }
}

fn map_changes(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut changes = Map::new();
    for (field, value) in new {
        match (old.get(field), value) {
            (Some(before), value) if before == value => {}
            (Some(Value::Object(before)), Value::Object(after)) => {
                let inner = map_changes(before, after);
                if !inner.is_empty() {
                    changes.insert(field.clone(), Value::Object(inner));
                }
            }
            (before, Value::Array(after)) => {
                let before = before.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                if let Some(list) = list_changes(field, before, after) {
                    changes.insert(field.clone(), Value::Array(list));
                }
            }
            (None, value) if is_empty(value) => {}
            (Some(_) | None, value) => {
                changes.insert(field.clone(), value.clone());
            }
        }
    }
    let removed = old.iter().filter(|(field, value)| !new.contains_key(*field) && !is_empty(value));
    changes.extend(removed.map(|(field, _)| (field.clone(), Value::Null)));
    changes
}

/// Fields that carry meaning even when empty: `running: {}` is a running container with an unknown start time.
const MEANINGFUL_WHEN_EMPTY: [&str; 3] = ["running", "waiting", "terminated"];

/// The API treats an absent field and an empty one alike.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields
            .iter()
            .all(|(field, value)| !MEANINGFUL_WHEN_EMPTY.contains(&field.as_str()) && is_empty(value)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn list_changes(field: &str, old: &[Value], new: &[Value]) -> Option<Vec<Value>> {
    match merge_strategy(field) {
        MergeStrategy::ByKey(key) => {
            let changes = keyed_changes(key, old, new);
            (!changes.is_empty()).then_some(changes)
        }
        MergeStrategy::Ordered if old != new => {
            Some(std::iter::once(json!({"$patch": "replace"})).chain(new.iter().cloned()).collect())
        }
        MergeStrategy::Replace if !lists_equal(old, new) => Some(new.to_vec()),
        MergeStrategy::Ordered | MergeStrategy::Replace => None,
    }
}

fn lists_equal(old: &[Value], new: &[Value]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(one, other)| values_equal(one, other))
}

fn values_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let contained = |a: &Map<String, Value>, b: &Map<String, Value>| {
                a.iter().all(|(field, value)| values_equal(value, b.get(field).unwrap_or(&Value::Null)))
            };
            contained(one, other) && contained(other, one)
        }
        (Value::Array(one), Value::Array(other)) => lists_equal(one, other),
        (one, other) => one == other || (is_empty(one) && is_empty(other)),
    }
}

fn keyed_changes(key: &str, old: &[Value], new: &[Value]) -> Vec<Value> {
    let key_of = |entry: &Value| entry.get(key).cloned().unwrap_or(Value::Null);
    let find =
        |list: &[Value], entry_key: &Value| list.iter().find(|entry| key_of(entry) == *entry_key).cloned();
    let mut changes = Vec::new();
    for entry in new {
        let entry_key = key_of(entry);
        match (find(old, &entry_key), entry) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let mut inner = map_changes(&before, after);
                if !inner.is_empty() {
                    inner.insert(key.to_owned(), entry_key);
                    changes.push(Value::Object(inner));
                }
            }
            (Some(_) | None, entry) => changes.push(entry.clone()),
        }
    }
    for entry in old {
        let entry_key = key_of(entry);
        if find(new, &entry_key).is_none() {
            changes.push(json!({"$patch": "delete", key: entry_key}));
        }
    }
    changes
}

#[cfg(test)]
mod tests;
