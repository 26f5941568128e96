//! Rules for node and pod affinity, and for label selectors.

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::field::Field;
use super::{formats, metadata};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(affinity: &Affinity, at: &Field<'_>) {
    at.if_set("nodeAffinity", &affinity.node_affinity, check_node_affinity);
    at.if_set("podAffinity", &affinity.pod_affinity, |pods, at| {
        at.list(REQUIRED, &pods.required_during_scheduling_ignored_during_execution).for_each(check_pod_term);
        at.list(PREFERRED, &pods.preferred_during_scheduling_ignored_during_execution)
            .for_each(check_weighted_term);
    });
    at.if_set("podAntiAffinity", &affinity.pod_anti_affinity, |pods, at| {
        at.list(REQUIRED, &pods.required_during_scheduling_ignored_during_execution).for_each(check_pod_term);
        at.list(PREFERRED, &pods.preferred_during_scheduling_ignored_during_execution)
            .for_each(check_weighted_term);
    });
}

pub(super) fn check_label_selector(selector: &LabelSelector, at: &Field<'_>) {
    metadata::check_labels(selector.match_labels.as_ref(), &at.field("matchLabels"));
    for (at, expression) in at.list("matchExpressions", &selector.match_expressions) {
        let values = expression.values.as_deref().unwrap_or_default();
        check_set_operator(&expression.operator, values, &at);
        at.field("key").format(&expression.key, formats::qualified_name);
        check_label_values(values, &at.field("values"));
    }
}

/// Checks `matchLabelKeys` or `mismatchLabelKeys`, whose values come from the labels of the pod.
pub(super) fn check_label_keys(keys: &[String], selector: Option<&LabelSelector>, at: &Field<'_>) {
    if !keys.is_empty() && selector.is_none() {
        at.forbidden("must not be specified when labelSelector is not set");
    }
    for (at, key) in at.items(keys) {
        at.format(key, formats::qualified_name);
    }
}

/// Checks that the selector contains each key of `matchLabelKeys` at most `max` times.
pub(super) fn check_keys_not_in_selector(
    (keys, max): (&[String], usize),
    selector: Option<&LabelSelector>,
    at: &Field<'_>,
) {
    let Some(selector) = selector else { return };
    let labels = selector.match_labels.iter().flat_map(|labels| labels.keys());
    let expressions = selector.match_expressions.iter().flatten().map(|expression| &expression.key);
    let selected: Vec<&String> = labels.chain(expressions).collect();
    for (at, key) in at.items(keys) {
        if selected.iter().filter(|other| **other == key).count() > max {
            at.invalid(key.as_str(), "exists in both matchLabelKeys and labelSelector");
        }
    }
}

fn check_node_affinity(affinity: &NodeAffinity, at: &Field<'_>) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let at = at.field(REQUIRED).field("nodeSelectorTerms");
        if selector.node_selector_terms.is_empty() {
            at.required("must have at least one node selector term");
        }
        for (at, term) in at.items(&selector.node_selector_terms) {
            check_node_selector_term(term, &at);
            for (at, expression) in at.list("matchExpressions", &term.match_expressions) {
                check_label_values(expression.values.as_deref().unwrap_or_default(), &at.field("values"));
            }
        }
    }
    for (at, term) in at.list(PREFERRED, &affinity.preferred_during_scheduling_ignored_during_execution) {
        check_weight(term.weight, &at);
        check_node_selector_term(&term.preference, &at.field("preference"));
    }
}

fn check_node_selector_term(term: &NodeSelectorTerm, at: &Field<'_>) {
    for (at, expression) in at.list("matchExpressions", &term.match_expressions) {
        let values = expression.values.as_deref().unwrap_or_default();
        match expression.operator.as_str() {
            "Gt" | "Lt" if values.len() == 1 => {}
            "Gt" | "Lt" => {
                at.field("values").required("must be a single value when `operator` is 'Lt' or 'Gt'");
            }
            operator => check_set_operator(operator, values, &at),
        }
        at.field("key").format(&expression.key, formats::qualified_name);
    }
    for (at, field) in at.list("matchFields", &term.match_fields) {
        check_node_field_selector(field, &at);
    }
}

fn check_node_field_selector(field: &NodeSelectorRequirement, at: &Field<'_>) {
    let values = field.values.as_deref().unwrap_or_default();
    if !matches!(field.operator.as_str(), "In" | "NotIn") {
        at.field("operator").invalid(field.operator.as_str(), "not a valid selector operator");
    } else if values.len() != 1 {
        at.field("values").required("must be only one value for node field selector");
    }
    if field.key != "metadata.name" {
        return at.field("key").invalid(field.key.as_str(), "not a valid field selector key");
    }
    for (at, name) in at.field("values").items(values) {
        at.format(name, formats::dns_subdomain);
    }
}

fn check_weighted_term((at, weighted): (Field<'_>, &WeightedPodAffinityTerm)) {
    check_weight(weighted.weight, &at);
    check_pod_term((at.field("podAffinityTerm"), &weighted.pod_affinity_term));
}

fn check_pod_term((at, term): (Field<'_>, &PodAffinityTerm)) {
    let selector = term.label_selector.as_ref();
    at.if_set("labelSelector", &term.label_selector, check_label_selector);
    at.if_set("namespaceSelector", &term.namespace_selector, check_label_selector);
    for (at, name) in at.list("namespaces", &term.namespaces) {
        at.format(name, formats::dns_label);
    }
    let matching = term.match_label_keys.as_deref().unwrap_or_default();
    let mismatching = term.mismatch_label_keys.as_deref().unwrap_or_default();
    check_label_keys(matching, selector, &at.field("matchLabelKeys"));
    check_label_keys(mismatching, selector, &at.field("mismatchLabelKeys"));
    check_keys_not_in_selector((matching, 1), selector, &at.field("matchLabelKeys"));
    for (at, key) in at.field("matchLabelKeys").items(matching) {
        if mismatching.contains(key) {
            at.invalid(key.as_str(), "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
    at.field("topologyKey").required_format(&term.topology_key, formats::qualified_name);
}

fn check_set_operator(operator: &str, values: &[String], at: &Field<'_>) {
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            at.field("values").required("must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            at.field("values").forbidden(detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => at.field("operator").invalid(operator, "not a valid selector operator"),
    }
}

fn check_label_values(values: &[String], at: &Field<'_>) {
    for (at, value) in at.items(values) {
        at.format(value, formats::label_value);
    }
}

fn check_weight(weight: i32, at: &Field<'_>) {
    if !(1..=100).contains(&weight) {
        at.field("weight").invalid(weight, "must be in the range 1-100");
    }
}
