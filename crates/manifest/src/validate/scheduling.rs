//! Rules for tolerations, topology spread constraints and scheduling gates.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Toleration;

use super::checker::Checker;
use super::{Context, affinity, formats, metadata};
use crate::path::Path;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn check(context: &Context<'_>, checker: &mut Checker) {
    let spec = context.spec;
    let path = Path::root().field("spec");
    metadata::check_labels(spec.node_selector.as_ref(), &path.field("nodeSelector"), checker);
    check_tolerations(spec.tolerations.as_deref().unwrap_or_default(), &path.field("tolerations"), checker);
    check_topology_spread(context, &path.field("topologySpreadConstraints"), checker);
    let gates = spec.scheduling_gates.as_deref().unwrap_or_default();
    let mut names = BTreeSet::new();
    for (path, gate) in path.field("schedulingGates").items(gates) {
        checker.format(&path.field("name"), &gate.name, formats::qualified_name(&gate.name));
        if !names.insert(&gate.name) {
            checker.duplicate(&path.field("name"), &gate.name);
        }
    }
    if !gates.is_empty() {
        let detail = "a static pod is assigned to its node, which is not allowed until all scheduling gates are cleared";
        checker.forbidden(&path.field("schedulingGates"), detail);
    }
    if let Some(group) = &spec.scheduling_group {
        let path = path.field("schedulingGroup.podGroupName");
        match &group.pod_group_name {
            Some(name) => checker.format(&path, name, formats::dns_subdomain(name)),
            None => checker.required(&path, "must specify one of: `podGroupName`"),
        }
    }
}

pub(super) fn check_tolerations(tolerations: &[Toleration], path: &Path, checker: &mut Checker) {
    for (path, toleration) in path.items(tolerations) {
        let key = toleration.key.as_deref().unwrap_or_default();
        let value = toleration.value.as_deref().unwrap_or_default();
        let operator = toleration.operator.as_deref().unwrap_or_default();
        let effect = toleration.effect.as_deref().unwrap_or_default();
        if !key.is_empty() {
            checker.format(&path.field("key"), key, formats::qualified_name(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            checker.invalid(&path.field("operator"), operator, detail);
        }
        if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
            checker.invalid(
                &path.field("effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => checker.format(&path.field("value"), value, formats::label_value(value)),
            "Exists" if value.is_empty() => {}
            "Exists" => {
                checker.invalid(&path.field("value"), value, "must be empty when `operator` is 'Exists'");
            }
            // `Lt` and `Gt` require the gate TaintTolerationComparisonOperators, which is disabled by default.
            _ => checker.unsupported(&path.field("operator"), operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            checker.one_of(&path.field("effect"), effect, &EFFECTS);
        }
    }
}

fn check_topology_spread(context: &Context<'_>, path: &Path, checker: &mut Checker) {
    let constraints = context.spec.topology_spread_constraints.as_deref().unwrap_or_default();
    let mut kinds = BTreeSet::new();
    for (path, constraint) in path.items(constraints) {
        checker.positive(&path.field("maxSkew"), i64::from(constraint.max_skew));
        checker.require_text(&path.field("topologyKey"), &constraint.topology_key);
        let action = constraint.when_unsatisfiable.as_str();
        checker.one_of(&path.field("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        if !kinds.insert((&constraint.topology_key, action)) {
            checker.duplicate(&path, &format!("{{{}, {action}}}", constraint.topology_key));
        }
        if let Some(domains) = constraint.min_domains {
            checker.positive(&path.field("minDomains"), i64::from(domains));
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                checker.invalid(&path.field("minDomains"), domains, &detail);
            }
        }
        for (field, policy) in [
            ("nodeAffinityPolicy", &constraint.node_affinity_policy),
            ("nodeTaintsPolicy", &constraint.node_taints_policy),
        ] {
            if let Some(policy) = policy {
                checker.one_of(&path.field(field), policy, &["Honor", "Ignore"]);
            }
        }
        let selector = constraint.label_selector.as_ref();
        let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
        affinity::check_label_keys(keys, selector, &path.field("matchLabelKeys"), checker);
        let allowed_occurrences = usize::from(context.validation_gates.allow_merged_spread_keys);
        affinity::check_keys_not_in_selector(
            (keys, allowed_occurrences),
            selector,
            &path.field("matchLabelKeys"),
            checker,
        );
        affinity::check_label_selector(selector, &path.field("labelSelector"), checker);
    }
}
