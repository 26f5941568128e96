//! Tolerations, spreading and scheduling gates.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Toleration;

use super::checker::Checker;
use super::{Context, affinity, formats, metadata};
use crate::path::Path;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks what the spec tells the scheduler.
pub(super) fn check(context: &Context<'_>, check: &mut Checker) {
    let spec = context.spec;
    let at = Path::root().field("spec");
    metadata::labels(spec.node_selector.as_ref(), &at.field("nodeSelector"), check);
    tolerations(spec.tolerations.as_deref().unwrap_or_default(), &at.field("tolerations"), check);
    spread(context, &at.field("topologySpreadConstraints"), check);
    let gates = spec.scheduling_gates.as_deref().unwrap_or_default();
    let mut names = BTreeSet::new();
    for (at, gate) in at.field("schedulingGates").items(gates) {
        check.format(&at.field("name"), &gate.name, formats::qualified_name(&gate.name));
        if !names.insert(&gate.name) {
            check.duplicate(&at.field("name"), &gate.name);
        }
    }
    if !gates.is_empty() {
        let detail =
            "a static pod is bound to its node, which is not allowed until all gates have been cleared";
        check.forbidden(&at.field("schedulingGates"), detail);
    }
    if let Some(group) = &spec.scheduling_group {
        let at = at.field("schedulingGroup.podGroupName");
        match &group.pod_group_name {
            Some(name) => check.format(&at, name, formats::dns_subdomain(name)),
            None => check.required(&at, "must specify one of: `podGroupName`"),
        }
    }
}

/// Checks tolerations.
pub(super) fn tolerations(tolerations: &[Toleration], at: &Path, check: &mut Checker) {
    for (at, toleration) in at.items(tolerations) {
        let key = toleration.key.as_deref().unwrap_or_default();
        let value = toleration.value.as_deref().unwrap_or_default();
        let operator = toleration.operator.as_deref().unwrap_or_default();
        let effect = toleration.effect.as_deref().unwrap_or_default();
        if !key.is_empty() {
            check.format(&at.field("key"), key, formats::qualified_name(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            check.invalid(&at.field("operator"), operator, detail);
        }
        if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
            check.invalid(
                &at.field("effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => check.format(&at.field("value"), value, formats::label_value(value)),
            "Exists" if value.is_empty() => {}
            "Exists" => check.invalid(&at.field("value"), value, "must be empty when `operator` is 'Exists'"),
            // `Lt` and `Gt` need the gate TaintTolerationComparisonOperators, which is off by default.
            _ => check.unsupported(&at.field("operator"), operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            check.one_of(&at.field("effect"), effect, &EFFECTS);
        }
    }
}

fn spread(context: &Context<'_>, at: &Path, check: &mut Checker) {
    let constraints = context.spec.topology_spread_constraints.as_deref().unwrap_or_default();
    let mut kinds = BTreeSet::new();
    for (at, constraint) in at.items(constraints) {
        check.positive(&at.field("maxSkew"), i64::from(constraint.max_skew));
        check.require_text(&at.field("topologyKey"), &constraint.topology_key);
        let action = constraint.when_unsatisfiable.as_str();
        check.one_of(&at.field("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        if !kinds.insert((&constraint.topology_key, action)) {
            check.duplicate(&at, &format!("{{{}, {action}}}", constraint.topology_key));
        }
        if let Some(domains) = constraint.min_domains {
            check.positive(&at.field("minDomains"), i64::from(domains));
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                check.invalid(&at.field("minDomains"), domains, &detail);
            }
        }
        for (field, policy) in [
            ("nodeAffinityPolicy", &constraint.node_affinity_policy),
            ("nodeTaintsPolicy", &constraint.node_taints_policy),
        ] {
            if let Some(policy) = policy {
                check.one_of(&at.field(field), policy, &["Honor", "Ignore"]);
            }
        }
        let selector = constraint.label_selector.as_ref();
        let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
        affinity::label_keys(keys, selector, &at.field("matchLabelKeys"), check);
        let once = usize::from(context.strictness.merged_spread_keys);
        affinity::keys_are_not_selected((keys, once), selector, &at.field("matchLabelKeys"), check);
        affinity::label_selector(selector, &at.field("labelSelector"), check);
    }
}
