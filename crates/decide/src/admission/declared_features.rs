//! Rejects pods that need a feature that this node does not declare. The scheduler checks the declared features as well.

use k8s_openapi::api::core::v1::Container;
use model::{AdmissionSettings, Pod, Rejection};

use crate::pipeline::pod_actions::is_sidecar;

const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
const HOST_NETWORK_USERS: &str = "UserNamespacesHostNetworkSupport";
const RESIZE_OF_INIT: &str = "InPlacePodVerticalScalingInitContainers";
const RESIZE_OF_POD: &str = "InPlacePodLevelResourcesVerticalScaling";

/// Rejects a pod that needs an undeclared feature.
pub(super) fn check(pod: &Pod, settings: &AdmissionSettings) -> Result<(), Rejection> {
    match missing_features_message(&required_features(pod), settings) {
        None => Ok(()),
        Some(message) => Err(Rejection::at_admission("PodFeatureUnsupported", message)),
    }
}

/// The event message if an update of a running pod needs undeclared features.
pub fn features_missing_for_update(old: &Pod, new: &Pod, settings: &AdmissionSettings) -> Option<String> {
    let mut required = Vec::new();
    if old.spec.resources != new.spec.resources {
        required.push(RESIZE_OF_POD);
    }
    let resources = |pod: &Pod| {
        let init = pod.spec.init_containers.iter().flatten();
        let plain = init.filter(|container| !is_sidecar(container));
        plain.map(|container| container.resources.clone()).collect::<Vec<_>>()
    };
    if resources(old) != resources(new) {
        required.push(RESIZE_OF_INIT);
    }
    missing_features_message(&required, settings)
}

fn required_features(pod: &Pod) -> Vec<&'static str> {
    let mut required = Vec::new();
    let restarts_all = |container: &Container| {
        let mut rules = container.restart_policy_rules.iter().flatten();
        // Any other action counts as `RestartAllContainers`, also a value that a source has substituted to disable it.
        rules.any(|rule| rule.action != "Restart")
    };
    if pod.containers().any(|entry| restarts_all(entry.container)) {
        required.push(RESTART_ALL);
    }
    if pod.is_host_network() && pod.spec.host_users == Some(false) {
        required.push(HOST_NETWORK_USERS);
    }
    required
}

fn missing_features_message(required: &[&str], settings: &AdmissionSettings) -> Option<String> {
    let declared = settings.declared_features.as_ref()?;
    let missing = required.iter().filter(|feature| !declared.iter().any(|declared| declared == *feature));
    let missing: Vec<&str> = missing.copied().collect();
    (!missing.is_empty())
        .then(|| format!("Pod requires node features that are not available: {}", missing.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_objects::pod;

    fn settings(declared: &[&str]) -> AdmissionSettings {
        let declared = declared.iter().map(|name| (*name).to_owned()).collect();
        AdmissionSettings { declared_features: Some(declared), ..AdmissionSettings::default() }
    }

    fn restarting(kind: &str) -> Value {
        let rules =
            json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]);
        let container =
            json!({"name": "a", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules});
        let mut spec = json!({"containers": [{"name": "b", "image": "i"}]});
        spec[kind] = json!([container]);
        spec
    }

    #[test]
    fn rejects_pods_that_use_undeclared_features() {
        let users = json!({"containers": [], "hostNetwork": true, "hostUsers": false});
        let mut replaced = restarting("containers");
        replaced["containers"][0]["restartPolicyRules"][0]["action"] = json!("None");
        let mut own = restarting("containers");
        own["containers"][0]["restartPolicyRules"][0]["action"] = json!("Restart");
        let cases = [
            (replaced, Some(RESTART_ALL)),
            (own, None),
            (json!({"containers": []}), None),
            (json!({"containers": [], "hostUsers": false}), None),
            (restarting("containers"), Some(RESTART_ALL)),
            (restarting("initContainers"), Some(RESTART_ALL)),
            (users, Some(HOST_NETWORK_USERS)),
        ];
        for (spec, needs) in cases {
            let pod = pod(spec.clone());
            let rejection = check(&pod, &settings(&[])).err();
            let expected = needs.map(|feature| {
                let message = format!("Pod requires node features that are not available: {feature}");
                Rejection::at_admission("PodFeatureUnsupported", message)
            });
            assert_eq!(rejection, expected, "{spec}");
            assert_eq!(check(&pod, &settings(&[RESTART_ALL, HOST_NETWORK_USERS])), Ok(()), "{spec}");
            assert_eq!(check(&pod, &AdmissionSettings::default()), Ok(()), "without the gate: {spec}");
        }
    }

    #[test]
    fn lists_all_missing_features() {
        let mut spec = restarting("containers");
        spec["hostNetwork"] = json!(true);
        spec["hostUsers"] = json!(false);
        let message = check(&pod(spec), &settings(&[])).unwrap_err().message;
        let expected =
            format!("Pod requires node features that are not available: {RESTART_ALL}, {HOST_NETWORK_USERS}");
        assert_eq!(message, expected);
    }

    #[test]
    fn warns_only_about_updates_that_need_undeclared_features() {
        let spec = |of_pod: &str, init: &str, sidecar: &str| {
            let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
            pod(json!({
                "resources": requests(of_pod),
                "initContainers": [
                    {"name": "i", "image": "i", "resources": requests(init)},
                    {"name": "s", "image": "i", "restartPolicy": "Always", "resources": requests(sidecar)},
                ],
                "containers": [{"name": "a", "image": "i"}],
            }))
        };
        let old = spec("1", "1", "1");
        let message_for =
            |new: &Pod, declared: &[&str]| features_missing_for_update(&old, new, &settings(declared));
        assert_eq!(message_for(&old, &[]), None);
        assert_eq!(message_for(&spec("1", "1", "2"), &[]), None);
        assert!(message_for(&spec("2", "1", "1"), &[RESIZE_OF_INIT]).unwrap().ends_with(RESIZE_OF_POD));
        assert!(message_for(&spec("1", "2", "1"), &[RESIZE_OF_POD]).unwrap().ends_with(RESIZE_OF_INIT));
        assert_eq!(message_for(&spec("2", "2", "1"), &[RESIZE_OF_INIT, RESIZE_OF_POD]), None);
    }
}
