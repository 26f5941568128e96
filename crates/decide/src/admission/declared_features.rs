//! Pods that need a feature which not every node of a cluster has: those that this node declares are known to the
//! scheduler, and the node holds pods to them itself.

use k8s_openapi::api::core::v1::Container;
use model::{AdmissionSettings, Pod, Rejection};

const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
const HOST_NETWORK_USERS: &str = "UserNamespacesHostNetworkSupport";
const RESIZE_OF_INIT: &str = "InPlacePodVerticalScalingInitContainers";
const RESIZE_OF_POD: &str = "InPlacePodLevelResourcesVerticalScaling";

/// Refuses a pod that needs what the node does not declare.
pub(super) fn check(pod: &Pod, settings: &AdmissionSettings) -> Result<(), Rejection> {
    match unmet(&needed(pod), settings) {
        None => Ok(()),
        Some(message) => Err(Rejection { reason: "PodFeatureUnsupported".to_owned(), message }),
    }
}

/// What a change of a running pod needs and the node does not declare, as users are told.
#[must_use]
pub fn unmet_by_update(old: &Pod, new: &Pod, settings: &AdmissionSettings) -> Option<String> {
    let mut needed = Vec::new();
    if old.spec.resources != new.spec.resources {
        needed.push(RESIZE_OF_POD);
    }
    let resources = |pod: &Pod| {
        let init = pod.spec.init_containers.iter().flatten();
        let plain = init.filter(|container| container.restart_policy.as_deref() != Some("Always"));
        plain.map(|container| container.resources.clone()).collect::<Vec<_>>()
    };
    if resources(old) != resources(new) {
        needed.push(RESIZE_OF_INIT);
    }
    unmet(&needed, settings)
}

fn needed(pod: &Pod) -> Vec<&'static str> {
    let mut needed = Vec::new();
    let restarts_all = |container: &Container| {
        let mut rules = container.restart_policy_rules.iter().flatten();
        // The other action; a source that must not let it happen has written something else there.
        rules.any(|rule| rule.action != "Restart")
    };
    if pod.containers().any(|entry| restarts_all(entry.container)) {
        needed.push(RESTART_ALL);
    }
    if pod.is_host_network() && pod.spec.host_users == Some(false) {
        needed.push(HOST_NETWORK_USERS);
    }
    needed
}

fn unmet(needed: &[&str], settings: &AdmissionSettings) -> Option<String> {
    let declared = settings.declared_features.as_ref()?;
    let missing = needed.iter().filter(|feature| !declared.iter().any(|declared| declared == *feature));
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
    fn a_pod_needs_what_it_uses() {
        let users = json!({"containers": [], "hostNetwork": true, "hostUsers": false});
        let mut spared = restarting("containers");
        spared["containers"][0]["restartPolicyRules"][0]["action"] = json!("None");
        let mut own = restarting("containers");
        own["containers"][0]["restartPolicyRules"][0]["action"] = json!("Restart");
        let cases = [
            (spared, Some(RESTART_ALL)),
            (own, None),
            (json!({"containers": []}), None),
            (json!({"containers": [], "hostUsers": false}), None),
            (restarting("containers"), Some(RESTART_ALL)),
            (restarting("initContainers"), Some(RESTART_ALL)),
            (users, Some(HOST_NETWORK_USERS)),
        ];
        for (spec, needs) in cases {
            let pod = pod(spec.clone());
            let refused = check(&pod, &settings(&[])).err();
            let expected = needs.map(|feature| Rejection {
                reason: "PodFeatureUnsupported".to_owned(),
                message: format!("Pod requires node features that are not available: {feature}"),
            });
            assert_eq!(refused, expected, "{spec}");
            assert_eq!(check(&pod, &settings(&[RESTART_ALL, HOST_NETWORK_USERS])), Ok(()), "{spec}");
            assert_eq!(check(&pod, &AdmissionSettings::default()), Ok(()), "without the gate: {spec}");
        }
    }

    #[test]
    fn several_that_are_missing_are_named_together() {
        let mut spec = restarting("containers");
        spec["hostNetwork"] = json!(true);
        spec["hostUsers"] = json!(false);
        let message = check(&pod(spec), &settings(&[])).unwrap_err().message;
        let expected =
            format!("Pod requires node features that are not available: {RESTART_ALL}, {HOST_NETWORK_USERS}");
        assert_eq!(message, expected);
    }

    #[test]
    fn only_changes_that_need_a_feature_are_told() {
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
        let told = |new: &Pod, declared: &[&str]| unmet_by_update(&old, new, &settings(declared));
        assert_eq!(told(&old, &[]), None);
        assert_eq!(told(&spec("1", "1", "2"), &[]), None);
        assert!(told(&spec("2", "1", "1"), &[RESIZE_OF_INIT]).unwrap().ends_with(RESIZE_OF_POD));
        assert!(told(&spec("1", "2", "1"), &[RESIZE_OF_POD]).unwrap().ends_with(RESIZE_OF_INIT));
        assert_eq!(told(&spec("2", "2", "1"), &[RESIZE_OF_INIT, RESIZE_OF_POD]), None);
    }
}
