//! Rules for restart policies and resize policies of containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use super::Context;
use super::field::Field;
use crate::restart_rules::RestartRules;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Checks the restart policy and restart rules of a regular container.
pub(super) fn check_regular_policy(container: &Container, allowed: RestartRules, at: &Field<'_>) {
    match allowed {
        RestartRules::All | RestartRules::WithoutRestartAll => {
            check_container_policy(container, allowed, at);
        }
        RestartRules::None if container.restart_policy.is_some() => {
            at.field("restartPolicy").forbidden("may not be set for non-init containers");
        }
        RestartRules::None => {}
    }
}

/// Checks the restart policy and restart rules of an init container.
pub(super) fn check_init_policy(container: &Container, allowed: RestartRules, at: &Field<'_>) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match (allowed, container.restart_policy.as_deref()) {
        (RestartRules::None, Some(policy)) => {
            at.field("restartPolicy").one_of(policy, &["Always"]);
        }
        (RestartRules::WithoutRestartAll, Some("Always")) if !rules.is_empty() => {
            let detail = "restartPolicyRules are not allowed for init containers with restart policy Always";
            at.field("restartPolicyRules").forbidden(detail);
        }
        _ => check_container_policy(container, allowed, at),
    }
}

fn check_container_policy(container: &Container, allowed: RestartRules, at: &Field<'_>) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match container.restart_policy.as_deref() {
        Some(policy) => {
            at.field("restartPolicy").one_of(policy, &["Always", "Never", "OnFailure"]);
        }
        None if rules.is_empty() => {}
        None => at.field("restartPolicy").required("must be set when restart rules are used"),
    }
    let at = at.field("restartPolicyRules");
    if rules.len() > MAX_RULES {
        at.too_many(rules.len(), MAX_RULES);
    }
    at.items(rules).for_each(|(at, rule)| check_restart_rule(rule, allowed, &at));
}

fn check_restart_rule(rule: &ContainerRestartRule, allowed: RestartRules, at: &Field<'_>) {
    let actions: &[&str] = match allowed {
        RestartRules::All => &["Restart", "RestartAllContainers"],
        RestartRules::WithoutRestartAll | RestartRules::None => &["Restart"],
    };
    at.field("action").one_of(&rule.action, actions);
    let at = at.field("exitCodes");
    let Some(codes) = &rule.exit_codes else { return at.required("must be specified") };
    at.field("operator").one_of(&codes.operator, &["In", "NotIn"]);
    let count = codes.values.as_deref().unwrap_or_default().len();
    if count > MAX_EXIT_CODES {
        at.field("values").too_many(count, MAX_EXIT_CODES);
    }
}

pub(super) fn check_resize_policy(container: &Container, context: &Context<'_>, at: &Field<'_>) {
    let never_restarts = context.spec.restart_policy.as_deref() == Some("Never");
    let is_plain_init =
        context.spec.init_containers.iter().flatten().any(|init| std::ptr::eq(init, container))
            && container.restart_policy.as_deref() != Some("Always");
    let mut seen = BTreeSet::new();
    for (at, policy) in at.list("resizePolicy", &container.resize_policy) {
        if !seen.insert(&policy.resource_name) {
            at.duplicate(&policy.resource_name);
        }
        at.field("resourceName").one_of(&policy.resource_name, &["cpu", "memory"]);
        let at = at.field("restartPolicy");
        let restart = policy.restart_policy.as_str();
        at.one_of(restart, &["NotRequired", "RestartContainer"]);
        if never_restarts && restart != "NotRequired" {
            at.invalid(restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
        if is_plain_init && restart == "RestartContainer" {
            at.invalid(restart, "must not be 'RestartContainer' for init containers that are not sidecars");
        }
    }
}
