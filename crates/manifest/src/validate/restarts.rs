//! When a container restarts, and whether resizing restarts it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use super::Context;
use super::checker::Checker;
use crate::path::Path;
use crate::restart_rules::RestartRules;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Checks the own restart policy of a regular container and its rules.
pub(super) fn regular_policy(container: &Container, allowed: RestartRules, at: &Path, check: &mut Checker) {
    match allowed {
        RestartRules::All | RestartRules::WithoutRestartAll => own_policy(container, allowed, at, check),
        RestartRules::None if container.restart_policy.is_some() => {
            check.forbidden(&at.field("restartPolicy"), "may not be set for non-init containers");
        }
        RestartRules::None => {}
    }
}

/// Checks the own restart policy of an init container and its rules.
pub(super) fn init_policy(container: &Container, allowed: RestartRules, at: &Path, check: &mut Checker) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match (allowed, container.restart_policy.as_deref()) {
        (RestartRules::None, Some(policy)) => {
            check.one_of(&at.field("restartPolicy"), policy, &["Always"]);
        }
        (RestartRules::WithoutRestartAll, Some("Always")) if !rules.is_empty() => {
            let detail = "restartPolicyRules are not allowed for init containers with restart policy Always";
            check.forbidden(&at.field("restartPolicyRules"), detail);
        }
        _ => own_policy(container, allowed, at, check),
    }
}

fn own_policy(container: &Container, allowed: RestartRules, at: &Path, check: &mut Checker) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match container.restart_policy.as_deref() {
        Some(policy) => check.one_of(&at.field("restartPolicy"), policy, &["Always", "Never", "OnFailure"]),
        None if rules.is_empty() => {}
        None => check.required(&at.field("restartPolicy"), "must be set when restart rules are used"),
    }
    let at = at.field("restartPolicyRules");
    if rules.len() > MAX_RULES {
        check.too_many(&at, rules.len(), MAX_RULES);
    }
    at.items(rules).for_each(|(at, rule)| restart_rule(rule, allowed, &at, check));
}

fn restart_rule(rule: &ContainerRestartRule, allowed: RestartRules, at: &Path, check: &mut Checker) {
    let actions: &[&str] = match allowed {
        RestartRules::All => &["Restart", "RestartAllContainers"],
        RestartRules::WithoutRestartAll | RestartRules::None => &["Restart"],
    };
    check.one_of(&at.field("action"), &rule.action, actions);
    let at = at.field("exitCodes");
    let Some(codes) = &rule.exit_codes else { return check.required(&at, "must be specified") };
    check.one_of(&at.field("operator"), &codes.operator, &["In", "NotIn"]);
    let count = codes.values.as_deref().unwrap_or_default().len();
    if count > MAX_EXIT_CODES {
        check.too_many(&at.field("values"), count, MAX_EXIT_CODES);
    }
}

/// Checks what happens to a container when its resources change.
pub(super) fn resize_policy(container: &Container, context: &Context<'_>, at: &Path, check: &mut Checker) {
    let never_restarts = context.spec.restart_policy.as_deref() == Some("Never");
    let is_plain_init =
        context.spec.init_containers.iter().flatten().any(|init| std::ptr::eq(init, container))
            && container.restart_policy.as_deref() != Some("Always");
    let mut seen = BTreeSet::new();
    for (at, policy) in at.items(container.resize_policy.as_deref().unwrap_or_default()) {
        if !seen.insert(&policy.resource_name) {
            check.duplicate(&at, &policy.resource_name);
        }
        check.one_of(&at.field("resourceName"), &policy.resource_name, &["cpu", "memory"]);
        let at = at.field("restartPolicy");
        let restart = policy.restart_policy.as_str();
        check.one_of(&at, restart, &["NotRequired", "RestartContainer"]);
        if never_restarts && restart != "NotRequired" {
            check.invalid(&at, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
        if is_plain_init && restart == "RestartContainer" {
            check.invalid(
                &at,
                restart,
                "must not be 'RestartContainer' for init containers that are no sidecars",
            );
        }
    }
}
