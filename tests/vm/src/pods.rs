//! The pods that both agents run.

use serde_json::{Value, json};

/// A pod on the host's network, which starts faster than one with its own.
pub(crate) fn pod(name: &str, arguments: &str) -> Value {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "hostNetwork": true,
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": "podward.test/demo:1", "args": words}],
        },
    })
}

/// The value with the fields of `changes` merged into it; null removes a field.
pub(crate) fn merged(mut value: Value, changes: Value) -> Value {
    merge(&mut value, changes);
    value
}

fn merge(value: &mut Value, changes: Value) {
    match (value, changes) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (name, change) in changes {
                if change.is_null() {
                    fields.remove(&name);
                } else {
                    merge(fields.entry(name).or_insert(Value::Null), change);
                }
            }
        }
        (value, changes) => *value = changes,
    }
}

/// The pod with fields of its only container changed.
pub(crate) fn with_container(mut pod: Value, changes: Value) -> Value {
    if let Some(container) = pod.pointer_mut("/spec/containers/0") {
        merge(container, changes);
    }
    pod
}

/// Name and resources of the pods whose cgroups and statistics are compared. A start in emulation takes half a second of
/// CPU time, so limits are not small.
fn resources() -> Vec<(&'static str, Value)> {
    vec![
        ("guaranteed", json!({"limits": {"cpu": "500m", "memory": "64Mi"}})),
        ("limit-605m", json!({"limits": {"cpu": "605m", "memory": "32Mi"}})),
        ("limit-610m", json!({"requests": {"cpu": "10m"}, "limits": {"cpu": "610m"}})),
        ("requests", json!({"requests": {"cpu": "100m", "memory": "32Mi"}})),
        ("memory-limit", json!({"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"memory": "48Mi"}})),
        ("best-effort", json!({})),
    ]
}

pub(crate) fn workload() -> Vec<Value> {
    let mut pods: Vec<Value> = resources()
        .into_iter()
        .map(|(name, resources)| with_container(pod(name, "sleep forever"), json!({"resources": resources})))
        .collect();
    pods.push(two_containers());
    pods.push(pod_level());
    pods
}

/// Two containers with a network, a volume and something to measure.
fn two_containers() -> Value {
    merged(
        pod("server", ""),
        json!({"spec": {
            "hostNetwork": null,
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}],
            "containers": [
                {
                    "name": "web", "image": "podward.test/demo:1", "args": ["write", "/data/x", "kept", "--", "serve"],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "memory", "mountPath": "/memory"}],
                },
                {
                    "name": "holder", "image": "podward.test/demo:1", "args": ["fill", "20", "--", "sleep", "forever"],
                    "resources": {"requests": {"cpu": "20m"}, "limits": {"memory": "100Mi"}},
                },
            ],
        }}),
    )
}

/// Resources of the pod as a whole.
fn pod_level() -> Value {
    merged(
        pod("pod-level", "sleep forever"),
        json!({"spec": {"resources": {
            "requests": {"cpu": "150m", "memory": "40Mi"}, "limits": {"cpu": "700m", "memory": "80Mi"},
        }}}),
    )
}
