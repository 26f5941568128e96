//! The gates of containers that say themselves when they restart.

use k8s_openapi::api::core::v1::{Container, PodSpec};

/// How containers may say when they restart (gates `ContainerRestartRules`, `RestartAllContainersOnContainerExits`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RestartRules {
    /// By a policy and rules of their own.
    #[default]
    All,
    /// The same, but no rule restarts the whole pod.
    WithoutRestartAll,
    /// Not at all; only sidecars are told by their policy.
    None,
}

/// Takes away what the gates do not allow. An API server with its gates on lets such pods through, and they follow the
/// policy of the pod then.
pub fn drop_restart_rules(spec: &mut PodSpec, allowed: RestartRules) {
    match allowed {
        RestartRules::All => {}
        RestartRules::WithoutRestartAll => {
            let all = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
            all.for_each(spare_the_others);
        }
        RestartRules::None => {
            for container in &mut spec.containers {
                (container.restart_policy, container.restart_policy_rules) = (None, None);
            }
            for container in spec.init_containers.iter_mut().flatten() {
                container.restart_policy_rules = None;
                container.restart_policy =
                    container.restart_policy.take().filter(|policy| policy == "Always");
            }
        }
    }
}

/// A rule that would restart the pod still ends the search, and leaves the container to its policy.
fn spare_the_others(container: &mut Container) {
    for rule in container.restart_policy_rules.iter_mut().flatten() {
        if rule.action == "RestartAllContainers" {
            rule.action = "None".to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(allowed: RestartRules, expected: &Value) {
        let rule = |action| json!({"action": action, "exitCodes": {"operator": "In", "values": [1]}});
        let rules = json!([rule("RestartAllContainers"), rule("Restart")]);
        let mut spec: PodSpec = serde_json::from_value(json!({
            "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init", "restartPolicy": "Never"}],
            "containers": [{"name": "main", "restartPolicy": "Never", "restartPolicyRules": rules}],
        }))
        .unwrap();
        drop_restart_rules(&mut spec, allowed);
        let policy = |container: &Container| container.restart_policy.clone();
        let init: Vec<_> = spec.init_containers.iter().flatten().map(policy).collect();
        let main = &spec.containers[0];
        let actions: Vec<_> = main.restart_policy_rules.iter().flatten().map(|rule| &rule.action).collect();
        assert_eq!(json!([init, policy(main), actions]), *expected, "{allowed:?}");
    }

    #[test]
    fn what_the_gates_do_not_allow_goes() {
        check(RestartRules::All, &json!([["Always", "Never"], "Never", ["RestartAllContainers", "Restart"]]));
        check(RestartRules::WithoutRestartAll, &json!([["Always", "Never"], "Never", ["None", "Restart"]]));
        check(RestartRules::None, &json!([["Always", null], null, []]));
    }
}
