//! Rules for node and pod affinity, and for label selectors.

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::checker::Checker;
use super::{formats, metadata};
use crate::path::Path;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(spec: &PodSpec, checker: &mut Checker) {
    let Some(affinity) = &spec.affinity else { return };
    let path = Path::root().field("spec.affinity");
    if let Some(node) = &affinity.node_affinity {
        check_node_affinity(node, &path.field("nodeAffinity"), checker);
    }
    let affinity_terms = affinity.pod_affinity.as_ref().map(|pods| {
        let required = &pods.required_during_scheduling_ignored_during_execution;
        ("podAffinity", required, &pods.preferred_during_scheduling_ignored_during_execution)
    });
    let anti_affinity_terms = affinity.pod_anti_affinity.as_ref().map(|pods| {
        let required = &pods.required_during_scheduling_ignored_during_execution;
        ("podAntiAffinity", required, &pods.preferred_during_scheduling_ignored_during_execution)
    });
    for (field, required, preferred) in [affinity_terms, anti_affinity_terms].into_iter().flatten() {
        let path = path.field(field);
        for (path, term) in path.field(REQUIRED).items(required.as_deref().unwrap_or_default()) {
            check_pod_affinity_term(term, &path, checker);
        }
        for (path, weighted) in path.field(PREFERRED).items(preferred.as_deref().unwrap_or_default()) {
            check_weight(weighted.weight, &path, checker);
            check_pod_affinity_term(&weighted.pod_affinity_term, &path.field("podAffinityTerm"), checker);
        }
    }
}

pub(super) fn check_label_selector(selector: Option<&LabelSelector>, path: &Path, checker: &mut Checker) {
    let Some(selector) = selector else { return };
    metadata::check_labels(selector.match_labels.as_ref(), &path.field("matchLabels"), checker);
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    for (path, expression) in path.field("matchExpressions").items(expressions) {
        let values = expression.values.as_deref().unwrap_or_default();
        check_set_operator(&expression.operator, values, &path, checker);
        checker.format(&path.field("key"), &expression.key, formats::qualified_name(&expression.key));
        check_label_values(values, &path.field("values"), checker);
    }
}

/// Checks `matchLabelKeys` or `mismatchLabelKeys`, whose values come from the labels of the pod.
pub(super) fn check_label_keys(
    keys: &[String],
    selector: Option<&LabelSelector>,
    path: &Path,
    checker: &mut Checker,
) {
    if !keys.is_empty() && selector.is_none() {
        checker.forbidden(path, "must not be specified when labelSelector is not set");
    }
    for (path, key) in path.items(keys) {
        checker.format(&path, key, formats::qualified_name(key));
    }
}

/// Checks that the selector contains each key of `matchLabelKeys` at most `max` times.
pub(super) fn check_keys_not_in_selector(
    (keys, max): (&[String], usize),
    selector: Option<&LabelSelector>,
    path: &Path,
    checker: &mut Checker,
) {
    let Some(selector) = selector else { return };
    let labels = selector.match_labels.iter().flat_map(|labels| labels.keys());
    let expressions = selector.match_expressions.iter().flatten().map(|expression| &expression.key);
    let selected: Vec<&String> = labels.chain(expressions).collect();
    for (path, key) in path.items(keys) {
        if selected.iter().filter(|other| **other == key).count() > max {
            checker.invalid(&path, key.as_str(), "exists in both matchLabelKeys and labelSelector");
        }
    }
}

fn check_node_affinity(affinity: &NodeAffinity, path: &Path, checker: &mut Checker) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let path = path.field(REQUIRED).field("nodeSelectorTerms");
        if selector.node_selector_terms.is_empty() {
            checker.required(&path, "must have at least one node selector term");
        }
        for (path, term) in path.items(&selector.node_selector_terms) {
            check_node_selector_term(term, &path, checker);
            for (path, expression) in
                path.field("matchExpressions").items(term.match_expressions.as_deref().unwrap_or_default())
            {
                check_label_values(
                    expression.values.as_deref().unwrap_or_default(),
                    &path.field("values"),
                    checker,
                );
            }
        }
    }
    let preferred =
        affinity.preferred_during_scheduling_ignored_during_execution.as_deref().unwrap_or_default();
    for (path, term) in path.field(PREFERRED).items(preferred) {
        check_weight(term.weight, &path, checker);
        check_node_selector_term(&term.preference, &path.field("preference"), checker);
    }
}

fn check_node_selector_term(term: &NodeSelectorTerm, path: &Path, checker: &mut Checker) {
    for (path, expression) in
        path.field("matchExpressions").items(term.match_expressions.as_deref().unwrap_or_default())
    {
        let values = expression.values.as_deref().unwrap_or_default();
        match expression.operator.as_str() {
            "Gt" | "Lt" if values.len() == 1 => {}
            "Gt" | "Lt" => {
                checker.required(
                    &path.field("values"),
                    "must be a single value when `operator` is 'Lt' or 'Gt'",
                );
            }
            operator => check_set_operator(operator, values, &path, checker),
        }
        checker.format(&path.field("key"), &expression.key, formats::qualified_name(&expression.key));
    }
    for (path, field) in path.field("matchFields").items(term.match_fields.as_deref().unwrap_or_default()) {
        check_node_field_selector(field, &path, checker);
    }
}

fn check_node_field_selector(field: &NodeSelectorRequirement, path: &Path, checker: &mut Checker) {
    let values = field.values.as_deref().unwrap_or_default();
    if !matches!(field.operator.as_str(), "In" | "NotIn") {
        checker.invalid(&path.field("operator"), field.operator.as_str(), "not a valid selector operator");
    } else if values.len() != 1 {
        checker.required(&path.field("values"), "must be only one value for node field selector");
    }
    if field.key != "metadata.name" {
        return checker.invalid(&path.field("key"), field.key.as_str(), "not a valid field selector key");
    }
    for (path, name) in path.field("values").items(values) {
        checker.format(&path, name, formats::dns_subdomain(name));
    }
}

fn check_pod_affinity_term(term: &PodAffinityTerm, path: &Path, checker: &mut Checker) {
    let selector = term.label_selector.as_ref();
    check_label_selector(selector, &path.field("labelSelector"), checker);
    check_label_selector(term.namespace_selector.as_ref(), &path.field("namespaceSelector"), checker);
    for (path, name) in path.field("namespaces").items(term.namespaces.as_deref().unwrap_or_default()) {
        checker.format(&path, name, formats::dns_label(name));
    }
    let matching = term.match_label_keys.as_deref().unwrap_or_default();
    let mismatching = term.mismatch_label_keys.as_deref().unwrap_or_default();
    check_label_keys(matching, selector, &path.field("matchLabelKeys"), checker);
    check_label_keys(mismatching, selector, &path.field("mismatchLabelKeys"), checker);
    check_keys_not_in_selector((matching, 1), selector, &path.field("matchLabelKeys"), checker);
    for (path, key) in path.field("matchLabelKeys").items(matching) {
        if mismatching.contains(key) {
            checker.invalid(&path, key.as_str(), "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
    let path = path.field("topologyKey");
    if checker.require_text(&path, &term.topology_key) {
        checker.format(&path, &term.topology_key, formats::qualified_name(&term.topology_key));
    }
}

fn check_set_operator(operator: &str, values: &[String], path: &Path, checker: &mut Checker) {
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            checker.required(&path.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            checker.forbidden(&path.field("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => checker.invalid(&path.field("operator"), operator, "not a valid selector operator"),
    }
}

fn check_label_values(values: &[String], path: &Path, checker: &mut Checker) {
    for (path, value) in path.items(values) {
        checker.format(&path, value, formats::label_value(value));
    }
}

fn check_weight(weight: i32, path: &Path, checker: &mut Checker) {
    if !(1..=100).contains(&weight) {
        checker.invalid(&path.field("weight"), weight, "must be in the range 1-100");
    }
}
