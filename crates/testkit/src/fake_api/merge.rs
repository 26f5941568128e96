//! Strategic merge of a pod's status.

use serde_json::{Map, Value};

pub(super) fn merged(old: &Value, patch: &Value) -> Value {
    let Value::Object(changes) = patch else { return patch.clone() };
    let mut fields = old.as_object().cloned().unwrap_or_default();
    for (field, change) in changes {
        let before = fields.get(field).cloned().unwrap_or(Value::Null);
        match (key_of(field), change) {
            (_, Value::Null) => {
                fields.remove(field);
            }
            (Some(key), Value::Array(changes)) => {
                fields.insert(field.clone(), Value::Array(merged_list(key, &before, changes)));
            }
            (_, Value::Object(_)) => {
                let before = if before.is_object() { before } else { Value::Object(Map::new()) };
                fields.insert(field.clone(), merged(&before, change));
            }
            (_, change) => {
                fields.insert(field.clone(), change.clone());
            }
        }
    }
    Value::Object(fields)
}

/// The merge key of a list field.
fn key_of(field: &str) -> Option<&'static str> {
    match field {
        "conditions" => Some("type"),
        "podIPs" | "hostIPs" => Some("ip"),
        _ => None,
    }
}

fn merged_list(key: &str, old: &Value, changes: &[Value]) -> Vec<Value> {
    let mut list = old.as_array().cloned().unwrap_or_default();
    for change in changes {
        match change.get("$patch").and_then(Value::as_str) {
            Some("replace") => list.clear(),
            Some("delete") => list.retain(|entry| entry.get(key) != change.get(key)),
            Some(_) | None => match list.iter_mut().find(|entry| entry.get(key) == change.get(key)) {
                Some(entry) => *entry = merged(entry, change),
                None => list.push(change.clone()),
            },
        }
    }
    list
}
