//! Tests of restart policies and rules under different feature gates.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{merge, with_container, with_spec};
use crate::{ManifestRules, RestartRules, defaults, validate};

fn problems(pod: &Value, allowed: RestartRules) -> Vec<String> {
    let mut pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    defaults::apply(&mut pod);
    let violations =
        validate::check_pod(&pod, ManifestRules { restarts: allowed, ..ManifestRules::default() });
    violations.into_iter().map(|(path, reason)| format!("{path}: {reason}")).collect()
}

fn with_init(patch: &Value) -> Value {
    let mut container = json!({ "name": "init", "image": "nginx:1" });
    merge(&mut container, patch);
    with_spec(&json!({ "initContainers": [container] }))
}

#[test]
fn feature_gates_control_restart_settings_of_containers() {
    let rule = |action| json!([{ "action": action, "exitCodes": { "operator": "In", "values": [1] } }]);
    let plain = json!({ "restartPolicy": "Never" });
    let restart = json!({ "restartPolicy": "Never", "restartPolicyRules": rule("Restart") });
    let all = json!({ "restartPolicy": "Never", "restartPolicyRules": rule("RestartAllContainers") });
    let sidecar = json!({ "restartPolicy": "Always" });
    let sidecar_rules =
        json!({ "restartPolicy": "Always", "restartPolicyRules": rule("RestartAllContainers") });
    let forbidden =
        Some("spec.containers[0].restartPolicy: Forbidden: may not be set for non-init containers");
    let action = Some("spec.containers[0].restartPolicyRules[0].action: Unsupported value");
    let init = Some("spec.initContainers[0].restartPolicy: Unsupported value");
    let sidecar_rule =
        Some("spec.initContainers[0].restartPolicyRules: Forbidden: restartPolicyRules are not allowed");
    for (pod, without_all, none) in [
        (with_container(&plain), None, forbidden),
        (with_container(&restart), None, forbidden),
        (with_container(&all), action, forbidden),
        (with_init(&plain), None, init),
        (with_init(&sidecar), None, None),
        (with_init(&sidecar_rules), sidecar_rule, None),
    ] {
        for (allowed, expected) in [
            (RestartRules::All, None),
            (RestartRules::WithoutRestartAll, without_all),
            (RestartRules::None, none),
        ] {
            let found = problems(&pod, allowed);
            match expected {
                None => assert_eq!(found, Vec::<String>::new(), "{allowed:?} {pod}"),
                Some(text) => {
                    assert!(found.len() == 1 && found[0].starts_with(text), "{allowed:?} {pod}: {found:?}");
                }
            }
        }
    }
}
