//! Rules for tolerations, topology spread constraints and scheduling gates.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Toleration;

use super::field::Field;
use super::{Context, affinity, formats, metadata};
use crate::ValidationGates;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn check(context: &Context<'_>) {
    let spec = context.spec;
    let at = context.spec_field();
    metadata::check_labels(spec.node_selector.as_ref(), &at.field("nodeSelector"));
    at.if_set("tolerations", &spec.tolerations, |tolerations, at| {
        check_tolerations(tolerations, context.validation_gates, at);
    });
    check_topology_spread(context);
    let gates = spec.scheduling_gates.as_deref().unwrap_or_default();
    let mut names = BTreeSet::new();
    for (at, gate) in at.field("schedulingGates").items(gates) {
        at.field("name").format(&gate.name, formats::qualified_name);
        if !names.insert(&gate.name) {
            at.field("name").duplicate(&gate.name);
        }
    }
    if !gates.is_empty() {
        let detail = "a static pod is assigned to its node, which is not allowed until all scheduling gates are cleared";
        at.field("schedulingGates").forbidden(detail);
    }
    if let Some(group) = &spec.scheduling_group {
        let at = at.field("schedulingGroup.podGroupName");
        match &group.pod_group_name {
            Some(name) => at.format(name, formats::dns_subdomain),
            None => at.required("must specify one of: `podGroupName`"),
        }
    }
}

pub(super) fn check_tolerations(tolerations: &[Toleration], gates: ValidationGates, at: &Field<'_>) {
    for (at, toleration) in at.items(tolerations) {
        let key = toleration.key.as_deref().unwrap_or_default();
        let value = toleration.value.as_deref().unwrap_or_default();
        let operator = toleration.operator.as_deref().unwrap_or_default();
        let effect = toleration.effect.as_deref().unwrap_or_default();
        if !key.is_empty() {
            at.field("key").format(key, formats::qualified_name);
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            at.field("operator").invalid(operator, detail);
        }
        if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
            at.field("effect").invalid(effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match operator {
            "" | "Equal" => at.field("value").format(value, formats::label_value),
            "Exists" if value.is_empty() => {}
            "Exists" => {
                at.field("value").invalid(value, "must be empty when `operator` is 'Exists'");
            }
            "Lt" | "Gt" if gates.allow_numeric_tolerations => check_number(value, &at.field("value")),
            _ if gates.allow_numeric_tolerations => {
                at.field("operator").unsupported(operator, &["Equal", "Exists", "Lt", "Gt"]);
            }
            _ => at.field("operator").unsupported(operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            at.field("effect").one_of(effect, &EFFECTS);
        }
    }
}

/// Numbers in other spellings, such as `007`, never match.
fn check_number(value: &str, at: &Field<'_>) {
    if !value.parse::<i64>().is_ok_and(|number| number.to_string() == value) {
        at.invalid(value, "must be a valid decimal integer in canonical form, within the range of 64 bits");
    }
}

fn check_topology_spread(context: &Context<'_>) {
    let constraints = &context.spec.topology_spread_constraints;
    let mut kinds = BTreeSet::new();
    for (at, constraint) in context.spec_field().list("topologySpreadConstraints", constraints) {
        at.field("maxSkew").positive(i64::from(constraint.max_skew));
        at.field("topologyKey").require(&constraint.topology_key);
        let action = constraint.when_unsatisfiable.as_str();
        at.field("whenUnsatisfiable").one_of(action, &["DoNotSchedule", "ScheduleAnyway"]);
        if !kinds.insert((&constraint.topology_key, action)) {
            at.duplicate(&format!("{{{}, {action}}}", constraint.topology_key));
        }
        if let Some(domains) = constraint.min_domains {
            at.field("minDomains").positive(i64::from(domains));
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                at.field("minDomains").invalid(domains, &detail);
            }
        }
        for (field, policy) in [
            ("nodeAffinityPolicy", &constraint.node_affinity_policy),
            ("nodeTaintsPolicy", &constraint.node_taints_policy),
        ] {
            at.field(field).optional_one_of(policy, &["Honor", "Ignore"]);
        }
        let selector = constraint.label_selector.as_ref();
        let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
        let allowed_occurrences = usize::from(context.validation_gates.allow_merged_spread_keys);
        let keys_field = at.field("matchLabelKeys");
        affinity::check_label_keys(keys, selector, &keys_field);
        affinity::check_keys_not_in_selector((keys, allowed_occurrences), selector, &keys_field);
        at.if_set("labelSelector", &constraint.label_selector, affinity::check_label_selector);
    }
}
