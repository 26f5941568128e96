//! Rules for restart policies and resize policies of containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use super::Context;
use super::checker::Checker;
use crate::path::Path;
use crate::restart_rules::RestartRules;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Checks the restart policy and restart rules of a regular container.
pub(super) fn check_regular_policy(
    container: &Container,
    allowed: RestartRules,
    path: &Path,
    checker: &mut Checker,
) {
    match allowed {
        RestartRules::All | RestartRules::WithoutRestartAll => {
            check_container_policy(container, allowed, path, checker);
        }
        RestartRules::None if container.restart_policy.is_some() => {
            checker.forbidden(&path.field("restartPolicy"), "may not be set for non-init containers");
        }
        RestartRules::None => {}
    }
}

/// Checks the restart policy and restart rules of an init container.
pub(super) fn check_init_policy(
    container: &Container,
    allowed: RestartRules,
    path: &Path,
    checker: &mut Checker,
) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match (allowed, container.restart_policy.as_deref()) {
        (RestartRules::None, Some(policy)) => {
            checker.one_of(&path.field("restartPolicy"), policy, &["Always"]);
        }
        (RestartRules::WithoutRestartAll, Some("Always")) if !rules.is_empty() => {
            let detail = "restartPolicyRules are not allowed for init containers with restart policy Always";
            checker.forbidden(&path.field("restartPolicyRules"), detail);
        }
        _ => check_container_policy(container, allowed, path, checker),
    }
}

fn check_container_policy(container: &Container, allowed: RestartRules, path: &Path, checker: &mut Checker) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match container.restart_policy.as_deref() {
        Some(policy) => {
            checker.one_of(&path.field("restartPolicy"), policy, &["Always", "Never", "OnFailure"]);
        }
        None if rules.is_empty() => {}
        None => checker.required(&path.field("restartPolicy"), "must be set when restart rules are used"),
    }
    let path = path.field("restartPolicyRules");
    if rules.len() > MAX_RULES {
        checker.too_many(&path, rules.len(), MAX_RULES);
    }
    path.items(rules).for_each(|(path, rule)| check_restart_rule(rule, allowed, &path, checker));
}

fn check_restart_rule(
    rule: &ContainerRestartRule,
    allowed: RestartRules,
    path: &Path,
    checker: &mut Checker,
) {
    let actions: &[&str] = match allowed {
        RestartRules::All => &["Restart", "RestartAllContainers"],
        RestartRules::WithoutRestartAll | RestartRules::None => &["Restart"],
    };
    checker.one_of(&path.field("action"), &rule.action, actions);
    let path = path.field("exitCodes");
    let Some(codes) = &rule.exit_codes else { return checker.required(&path, "must be specified") };
    checker.one_of(&path.field("operator"), &codes.operator, &["In", "NotIn"]);
    let count = codes.values.as_deref().unwrap_or_default().len();
    if count > MAX_EXIT_CODES {
        checker.too_many(&path.field("values"), count, MAX_EXIT_CODES);
    }
}

pub(super) fn check_resize_policy(
    container: &Container,
    context: &Context<'_>,
    path: &Path,
    checker: &mut Checker,
) {
    let never_restarts = context.spec.restart_policy.as_deref() == Some("Never");
    let is_plain_init =
        context.spec.init_containers.iter().flatten().any(|init| std::ptr::eq(init, container))
            && container.restart_policy.as_deref() != Some("Always");
    let mut seen = BTreeSet::new();
    for (path, policy) in path.items(container.resize_policy.as_deref().unwrap_or_default()) {
        if !seen.insert(&policy.resource_name) {
            checker.duplicate(&path, &policy.resource_name);
        }
        checker.one_of(&path.field("resourceName"), &policy.resource_name, &["cpu", "memory"]);
        let path = path.field("restartPolicy");
        let restart = policy.restart_policy.as_str();
        checker.one_of(&path, restart, &["NotRequired", "RestartContainer"]);
        if never_restarts && restart != "NotRequired" {
            checker.invalid(&path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
        if is_plain_init && restart == "RestartContainer" {
            checker.invalid(
                &path,
                restart,
                "must not be 'RestartContainer' for init containers that are not sidecars",
            );
        }
    }
}
