//! Conversion of the v1 pod to upstream's internal pod, as JSON.
//!
//! Covers only the fields that upstream converts by hand; the schema maps all others.

use serde_json::{Map, Value, json};

use crate::identity::DROPPED_ANNOTATIONS;

/// The internal pod has these fields of the v1 spec in its security context.
const IN_SECURITY_CONTEXT: [&str; 5] =
    ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// Returns the internal pod; its fields keep their v1 JSON names.
pub(super) fn to_internal(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let Some(root) = pod.as_object_mut() {
        root.remove("kind");
        root.remove("apiVersion");
        if let Some(Value::Object(annotations)) =
            root.get_mut("metadata").and_then(|m| m.get_mut("annotations"))
        {
            annotations.retain(|key, _| !DROPPED_ANNOTATIONS.contains(&key.as_str()));
        }
        convert_spec(root.entry("spec").or_insert(Value::Null));
        if let Some(Value::Object(status)) = root.get_mut("status") {
            convert_status(status);
        }
    }
    pod
}

fn convert_spec(spec: &mut Value) {
    if spec.is_null() {
        *spec = json!({});
    }
    let Some(spec) = spec.as_object_mut() else { return };
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
    }
    if text(spec, "serviceAccountName").is_empty() {
        let account = text(spec, "serviceAccount").to_owned();
        spec.insert("serviceAccountName".to_owned(), Value::String(account));
    }
    let moved = IN_SECURITY_CONTEXT.map(|key| (key.to_owned(), spec.get(key).cloned().unwrap_or_default()));
    let context = spec.entry("securityContext").or_insert(Value::Null);
    if context.is_null() {
        *context = json!({});
    }
    if let Some(context) = context.as_object_mut() {
        context.extend(moved);
    }
}

/// `podIP` takes precedence over `podIPs` if they differ.
fn convert_status(status: &mut Map<String, Value>) {
    let single = text(status, "podIP").to_owned();
    let first = status.get("podIPs").and_then(|list| list.get(0)).and_then(|entry| entry.get("ip"));
    if !single.is_empty() && first.and_then(Value::as_str) != Some(&single) {
        status.insert("podIPs".to_owned(), json!([{ "ip": single }]));
    }
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}
