//! Pod manifests as JSON values.

use serde_json::{Value, json};
use testkit::images::DEMO;

/// A pod with these containers and a grace period of 3 seconds.
pub fn pod(name: &str, containers: impl IntoIterator<Item = Value>) -> Value {
    let containers: Vec<Value> = containers.into_iter().collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 3, "containers": containers},
    })
}

/// A container of the demo image with these space-separated arguments.
pub fn container(name: &str, arguments: &str) -> Value {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    json!({"name": name, "image": DEMO, "args": words})
}

/// A pod with one container, `main`, that sleeps until it is stopped.
pub fn sleeper(name: &str) -> Value {
    pod(name, [container("main", "sleep forever")])
}

/// The manifest with one field replaced; `pointer` as in RFC 6901, its parent must exist.
pub fn with(mut manifest: Value, pointer: &str, value: Value) -> Value {
    if let Some(field) = manifest.pointer_mut(pointer) {
        *field = value;
    } else if let Some((parent, name)) = pointer.rsplit_once('/')
        && let Some(parent) = manifest.pointer_mut(parent).and_then(Value::as_object_mut)
    {
        parent.insert(name.replace("~1", "/"), value);
    }
    manifest
}
