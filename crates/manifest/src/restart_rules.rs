//! Feature gates for restart policies and rules of single containers.

use k8s_openapi::api::core::v1::{Container, PodSpec};

/// Which restart settings containers may have (gates `ContainerRestartRules`, `RestartAllContainersOnContainerExits`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RestartRules {
    /// A restart policy and restart rules per container.
    #[default]
    All,
    /// Like `All`, but without the action `RestartAllContainers`.
    WithoutRestartAll,
    /// No settings per container, except the policy `Always` that marks a sidecar.
    None,
}

/// Removes settings that the gates do not allow. An API server with the gates enabled accepts pods with such settings;
/// here the restart policy of the pod applies to them.
pub fn drop_restart_rules(spec: &mut PodSpec, allowed: RestartRules) {
    match allowed {
        RestartRules::All => {}
        RestartRules::WithoutRestartAll => {
            let all = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
            all.for_each(disable_restart_all);
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

/// Replaces `RestartAllContainers` by `None`: the rule still matches, and the policy of the container applies.
fn disable_restart_all(container: &mut Container) {
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
    fn drops_restart_settings_that_the_gates_do_not_allow() {
        check(RestartRules::All, &json!([["Always", "Never"], "Never", ["RestartAllContainers", "Restart"]]));
        check(RestartRules::WithoutRestartAll, &json!([["Always", "Never"], "Never", ["None", "Restart"]]));
        check(RestartRules::None, &json!([["Always", null], null, []]));
    }
}
