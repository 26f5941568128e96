//! For each topic, one valid pod, and one pod per rule that violates it.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::{defaults, validate};

mod containers;
mod pods;
mod restarts;
mod volumes;

/// All problems of a pod as `path: reason`.
fn problems(pod: &Value) -> Vec<String> {
    let mut pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    let malformed = validate::find_malformed_quantities(&mut pod);
    let violations = if malformed.is_empty() {
        defaults::apply(&mut pod);
        defaults::publish_quantities(&mut pod);
        validate::check_pod(&pod, crate::ManifestRules::default())
    } else {
        malformed
    };
    violations.into_iter().map(|(path, reason)| format!("{path}: {reason}")).collect()
}

fn valid_pod() -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "containers": [{ "name": "web", "image": "nginx:1" }] },
    })
}

/// Merges `patch` into `base`. Lists and scalars are replaced, null removes a field.
fn merge(base: &mut Value, patch: &Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    base.remove(key);
                } else {
                    merge(base.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (base, patch) => *base = patch.clone(),
    }
}

/// A valid pod with `patch` merged into its spec.
fn with_spec(patch: &Value) -> Value {
    let mut pod = valid_pod();
    merge(&mut pod, &json!({ "spec": patch }));
    pod
}

/// A valid pod with `patch` merged into its only container.
fn with_container(patch: &Value) -> Value {
    let mut container = json!({ "name": "web", "image": "nginx:1" });
    merge(&mut container, patch);
    with_spec(&json!({ "containers": [container] }))
}

#[track_caller]
fn accepts(pod: &Value) {
    assert_eq!(problems(pod), Vec::<String>::new(), "{pod}");
}

/// Asserts that the pod has exactly one problem, which starts with `expected`.
#[track_caller]
fn rejects(pod: &Value, expected: &str) {
    let found = problems(pod);
    assert!(
        matches!(&*found, [problem] if problem.starts_with(expected)),
        "expected only {expected:?}, found {found:#?}"
    );
}

#[test]
fn accepts_a_minimal_pod() {
    accepts(&valid_pod());
}
