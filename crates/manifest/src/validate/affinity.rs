//! Node and pod affinity, and label selectors.

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::checker::Checker;
use super::{formats, metadata};
use crate::path::Path;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks the spec's affinity.
pub(super) fn check(spec: &PodSpec, check: &mut Checker) {
    let Some(affinity) = &spec.affinity else { return };
    let at = Path::root().field("spec.affinity");
    if let Some(node) = &affinity.node_affinity {
        node_affinity(node, &at.field("nodeAffinity"), check);
    }
    let near = affinity.pod_affinity.as_ref().map(|pods| {
        let required = &pods.required_during_scheduling_ignored_during_execution;
        ("podAffinity", required, &pods.preferred_during_scheduling_ignored_during_execution)
    });
    let apart = affinity.pod_anti_affinity.as_ref().map(|pods| {
        let required = &pods.required_during_scheduling_ignored_during_execution;
        ("podAntiAffinity", required, &pods.preferred_during_scheduling_ignored_during_execution)
    });
    for (field, required, preferred) in [near, apart].into_iter().flatten() {
        let at = at.field(field);
        for (at, term) in at.field(REQUIRED).items(required.as_deref().unwrap_or_default()) {
            pod_term(term, &at, check);
        }
        for (at, weighted) in at.field(PREFERRED).items(preferred.as_deref().unwrap_or_default()) {
            weight(weighted.weight, &at, check);
            pod_term(&weighted.pod_affinity_term, &at.field("podAffinityTerm"), check);
        }
    }
}

/// Checks a label selector.
pub(super) fn label_selector(selector: Option<&LabelSelector>, at: &Path, check: &mut Checker) {
    let Some(selector) = selector else { return };
    metadata::labels(selector.match_labels.as_ref(), &at.field("matchLabels"), check);
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    for (at, expression) in at.field("matchExpressions").items(expressions) {
        let values = expression.values.as_deref().unwrap_or_default();
        set_operator(&expression.operator, values, &at, check);
        check.format(&at.field("key"), &expression.key, formats::qualified_name(&expression.key));
        label_values(values, &at.field("values"), check);
    }
}

/// Checks keys whose values are taken from the pod's own labels.
pub(super) fn label_keys(keys: &[String], selector: Option<&LabelSelector>, at: &Path, check: &mut Checker) {
    if !keys.is_empty() && selector.is_none() {
        check.forbidden(at, "must not be specified when labelSelector is not set");
    }
    for (at, key) in at.items(keys) {
        check.format(&at, key, formats::qualified_name(key));
    }
}

/// A key cannot be taken from the pod and be given in the selector more often than it may.
pub(super) fn keys_are_not_selected(
    (keys, most): (&[String], usize),
    selector: Option<&LabelSelector>,
    at: &Path,
    check: &mut Checker,
) {
    let Some(selector) = selector else { return };
    let labels = selector.match_labels.iter().flat_map(|labels| labels.keys());
    let expressions = selector.match_expressions.iter().flatten().map(|expression| &expression.key);
    let selected: Vec<&String> = labels.chain(expressions).collect();
    for (at, key) in at.items(keys) {
        if selected.iter().filter(|other| **other == key).count() > most {
            check.invalid(&at, key.as_str(), "exists in both matchLabelKeys and labelSelector");
        }
    }
}

fn node_affinity(affinity: &NodeAffinity, at: &Path, check: &mut Checker) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let at = at.field(REQUIRED).field("nodeSelectorTerms");
        if selector.node_selector_terms.is_empty() {
            check.required(&at, "must have at least one node selector term");
        }
        for (at, term) in at.items(&selector.node_selector_terms) {
            node_term(term, &at, check);
            for (at, expression) in
                at.field("matchExpressions").items(term.match_expressions.as_deref().unwrap_or_default())
            {
                label_values(expression.values.as_deref().unwrap_or_default(), &at.field("values"), check);
            }
        }
    }
    let preferred =
        affinity.preferred_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default();
    for (at, term) in at.field(PREFERRED).items(preferred) {
        weight(term.weight, &at, check);
        node_term(&term.preference, &at.field("preference"), check);
    }
}

fn node_term(term: &NodeSelectorTerm, at: &Path, check: &mut Checker) {
    for (at, expression) in
        at.field("matchExpressions").items(term.match_expressions.as_deref().unwrap_or_default())
    {
        let values = expression.values.as_deref().unwrap_or_default();
        match expression.operator.as_str() {
            "Gt" | "Lt" if values.len() == 1 => {}
            "Gt" | "Lt" => {
                check.required(&at.field("values"), "must be a single value when `operator` is 'Lt' or 'Gt'");
            }
            operator => set_operator(operator, values, &at, check),
        }
        check.format(&at.field("key"), &expression.key, formats::qualified_name(&expression.key));
    }
    for (at, field) in at.field("matchFields").items(term.match_fields.as_deref().unwrap_or_default()) {
        node_field(field, &at, check);
    }
}

fn node_field(field: &NodeSelectorRequirement, at: &Path, check: &mut Checker) {
    let values = field.values.as_deref().unwrap_or_default();
    if !matches!(field.operator.as_str(), "In" | "NotIn") {
        check.invalid(&at.field("operator"), field.operator.as_str(), "not a valid selector operator");
    } else if values.len() != 1 {
        check.required(&at.field("values"), "must be only one value for node field selector");
    }
    if field.key != "metadata.name" {
        return check.invalid(&at.field("key"), field.key.as_str(), "not a valid field selector key");
    }
    for (at, name) in at.field("values").items(values) {
        check.format(&at, name, formats::dns_subdomain(name));
    }
}

fn pod_term(term: &PodAffinityTerm, at: &Path, check: &mut Checker) {
    let selector = term.label_selector.as_ref();
    label_selector(selector, &at.field("labelSelector"), check);
    label_selector(term.namespace_selector.as_ref(), &at.field("namespaceSelector"), check);
    for (at, name) in at.field("namespaces").items(term.namespaces.as_deref().unwrap_or_default()) {
        check.format(&at, name, formats::dns_label(name));
    }
    let matching = term.match_label_keys.as_deref().unwrap_or_default();
    let mismatching = term.mismatch_label_keys.as_deref().unwrap_or_default();
    label_keys(matching, selector, &at.field("matchLabelKeys"), check);
    label_keys(mismatching, selector, &at.field("mismatchLabelKeys"), check);
    keys_are_not_selected((matching, 1), selector, &at.field("matchLabelKeys"), check);
    for (at, key) in at.field("matchLabelKeys").items(matching) {
        if mismatching.contains(key) {
            check.invalid(&at, key.as_str(), "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
    let at = at.field("topologyKey");
    if check.require_text(&at, &term.topology_key) {
        check.format(&at, &term.topology_key, formats::qualified_name(&term.topology_key));
    }
}

fn set_operator(operator: &str, values: &[String], at: &Path, check: &mut Checker) {
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            check.required(&at.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            check.forbidden(&at.field("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => check.invalid(&at.field("operator"), operator, "not a valid selector operator"),
    }
}

fn label_values(values: &[String], at: &Path, check: &mut Checker) {
    for (at, value) in at.items(values) {
        check.format(&at, value, formats::label_value(value));
    }
}

fn weight(weight: i32, at: &Path, check: &mut Checker) {
    if !(1..=100).contains(&weight) {
        check.invalid(&at.field("weight"), weight, "must be in the range 1-100");
    }
}
