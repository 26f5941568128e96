//! The smallest write that turns the status at the API server into ours: a strategic merge patch.
//!
//! Maps are merged field by field, `null` removes. Lists are replaced as a whole, except those that the API merges by
//! a key: conditions by their type, addresses by themselves.

use k8s_openapi::api::core::v1::PodStatus;
use model::PodUid;
use serde_json::{Map, Value, json};

/// How the API merges a list of the status.
enum Merge {
    /// Element by element, found by this field.
    ByKey(&'static str),
    /// Merged by key, but the order counts: the first address is the pod's. Replaced as a whole.
    Ordered,
    /// As a whole.
    Replace,
}

fn merge_of(field: &str) -> Merge {
    match field {
        "conditions" => Merge::ByKey("type"),
        "podIPs" | "hostIPs" => Merge::Ordered,
        _ => Merge::Replace,
    }
}

/// The patch from one status to another, bound to the pod of that UID; `None` when there is nothing to write.
#[must_use]
pub fn status_patch(uid: &PodUid, old: &PodStatus, new: &PodStatus) -> Option<Value> {
    let changes = changes(old, new);
    (!changes.is_empty()).then(|| json!({"metadata": {"uid": uid.as_str()}, "status": changes}))
}

/// Whether both say the same.
#[must_use]
pub fn is_same(one: &PodStatus, other: &PodStatus) -> bool {
    changes(one, other).is_empty()
}

fn changes(old: &PodStatus, new: &PodStatus) -> Map<String, Value> {
    map_changes(&fields(old), &fields(new))
}

fn fields(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        // A status is an object, and all of its values can be written.
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
    let gone = old.iter().filter(|(field, value)| !new.contains_key(*field) && !is_empty(value));
    changes.extend(gone.map(|(field, _)| (field.clone(), Value::Null)));
    changes
}

/// Fields whose presence says something, whatever they hold: a container runs, even if nobody knows since when.
const SAYS: [&str; 3] = ["running", "waiting", "terminated"];

/// What is not there and what is there but empty are the same to the API.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => {
            fields.iter().all(|(field, value)| !SAYS.contains(&field.as_str()) && is_empty(value))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn list_changes(field: &str, old: &[Value], new: &[Value]) -> Option<Vec<Value>> {
    match merge_of(field) {
        Merge::ByKey(key) => {
            let changes = keyed_changes(key, old, new);
            (!changes.is_empty()).then_some(changes)
        }
        Merge::Ordered if old != new => {
            Some(std::iter::once(json!({"$patch": "replace"})).chain(new.iter().cloned()).collect())
        }
        Merge::Replace if !same_lists(old, new) => Some(new.to_vec()),
        Merge::Ordered | Merge::Replace => None,
    }
}

fn same_lists(old: &[Value], new: &[Value]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(one, other)| same(one, other))
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let within = |a: &Map<String, Value>, b: &Map<String, Value>| {
                a.iter().all(|(field, value)| same(value, b.get(field).unwrap_or(&Value::Null)))
            };
            within(one, other) && within(other, one)
        }
        (Value::Array(one), Value::Array(other)) => same_lists(one, other),
        (one, other) => one == other || (is_empty(one) && is_empty(other)),
    }
}

fn keyed_changes(key: &str, old: &[Value], new: &[Value]) -> Vec<Value> {
    let name = |entry: &Value| entry.get(key).cloned().unwrap_or(Value::Null);
    let find = |list: &[Value], wanted: &Value| list.iter().find(|entry| name(entry) == *wanted).cloned();
    let mut changes = Vec::new();
    for entry in new {
        let wanted = name(entry);
        match (find(old, &wanted), entry) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let mut inner = map_changes(&before, after);
                if !inner.is_empty() {
                    inner.insert(key.to_owned(), wanted);
                    changes.push(Value::Object(inner));
                }
            }
            (Some(_) | None, entry) => changes.push(entry.clone()),
        }
    }
    for entry in old {
        let wanted = name(entry);
        if find(new, &wanted).is_none() {
            changes.push(json!({"$patch": "delete", key: wanted}));
        }
    }
    changes
}

#[cfg(test)]
mod tests;
