use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use model::Pod;

use super::{AdmissionInputs, PredicateFailure};

pub(super) const NODE_AFFINITY: &str = "NodeAffinity";

/// Checks node selector, node affinity and node name of the pod.
pub(super) fn check(pod: &Pod, inputs: &AdmissionInputs<'_>) -> Vec<PredicateFailure> {
    let mut failures = Vec::new();
    if !matches_node(pod, inputs) {
        failures.push(PredicateFailure::Predicate {
            name: NODE_AFFINITY,
            description: "node(s) didn't match Pod's node affinity/selector",
        });
    }
    let name = pod.spec.node_name.as_deref().unwrap_or_default();
    if !name.is_empty() && name != inputs.settings.name {
        failures.push(PredicateFailure::Predicate {
            name: "NodeName",
            description: "node(s) didn't match the requested node name",
        });
    }
    failures
}

fn matches_node(pod: &Pod, inputs: &AdmissionInputs<'_>) -> bool {
    let labels = inputs.labels;
    let mut selector = pod.spec.node_selector.iter().flatten();
    if !selector.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| selects(required, labels, &inputs.settings.name))
}

/// Whether a selector selects a node with these labels and this name.
pub(crate) fn selects(selector: &NodeSelector, labels: &BTreeMap<String, String>, name: &str) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, labels, name))
}

/// A term without requirements selects nothing.
fn term_matches(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    expressions.iter().all(|expression| label_matches(expression, labels))
        && fields.iter().all(|field| field_matches(field, name))
}

fn label_matches(requirement: &NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let label = labels.get(&requirement.key);
    let number = || Some((label?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "Gt" => number().is_some_and(|(label, bound)| label > bound),
        "Lt" => number().is_some_and(|(label, bound)| label < bound),
        operator => set_operator_holds(operator, values, label),
    }
}

/// Whether an operator that labels of all kinds of objects have holds. Validation rejects all other operators.
pub(crate) fn set_operator_holds(operator: &str, values: &[String], label: Option<&String>) -> bool {
    match operator {
        "In" => label.is_some_and(|label| values.contains(label)),
        "NotIn" => label.is_none_or(|label| !values.contains(label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

/// The name is the only field of a node that can be selected.
fn field_matches(requirement: &NodeSelectorRequirement, name: &str) -> bool {
    let [value] = requirement.values.as_deref().unwrap_or_default() else { return false };
    let is_name = requirement.key == "metadata.name" && value == name;
    match requirement.operator.as_str() {
        "In" => is_name,
        "NotIn" => !is_name,
        _ => false,
    }
}
