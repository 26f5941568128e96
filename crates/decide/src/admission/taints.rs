use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Taint, Toleration};
use model::Pod;

use super::PredicateFailure;

/// Whether tolerations may compare numbers (gate `TaintTolerationComparisonOperators`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumericOperators {
    Allowed,
    /// A toleration with such an operator tolerates nothing.
    Ignored,
}

/// Rejects pods that do not tolerate a `NoExecute` taint. Static pods are exempt.
pub(super) fn check(pod: &Pod, taints: &[Taint], numeric: NumericOperators) -> Option<PredicateFailure> {
    let tolerations = pod.spec.tolerations.as_deref().unwrap_or_default();
    let is_untolerated = |taint: &Taint| {
        taint.effect == "NoExecute"
            && !tolerations.iter().any(|toleration| tolerates(toleration, taint, numeric))
    };
    let untolerated = !pod.is_static() && taints.iter().any(is_untolerated);
    untolerated.then_some(PredicateFailure::Predicate {
        name: "TaintToleration",
        description: "node(s) had taints that the pod didn't tolerate",
    })
}

pub(super) fn tolerates(toleration: &Toleration, taint: &Taint, numeric: NumericOperators) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    let is_taint = |expected: Ordering| {
        let values = number(&text(&taint.value)).zip(number(&text(&toleration.value)));
        numeric == NumericOperators::Allowed
            && values.is_some_and(|(taint, toleration)| taint.cmp(&toleration) == expected)
    };
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => text(&toleration.value) == text(&taint.value),
        "Exists" => true,
        "Lt" => is_taint(Ordering::Less),
        "Gt" => is_taint(Ordering::Greater),
        _ => false,
    }
}

/// A decimal number in its canonical form: other spellings (`+1`, `007`, `-0`) are no numbers.
fn number(text: &str) -> Option<i64> {
    let value: i64 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}
