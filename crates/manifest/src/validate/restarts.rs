//! When a container restarts, and whether resizing restarts it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use super::Context;
use super::checker::Checker;
use crate::path::Path;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Checks a container's own restart policy and its rules.
pub(super) fn container_policy(container: &Container, at: &Path, check: &mut Checker) {
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
    at.items(rules).for_each(|(at, rule)| restart_rule(rule, &at, check));
}

fn restart_rule(rule: &ContainerRestartRule, at: &Path, check: &mut Checker) {
    check.one_of(&at.field("action"), &rule.action, &["Restart", "RestartAllContainers"]);
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
