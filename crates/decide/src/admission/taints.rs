use k8s_openapi::api::core::v1::{Taint, Toleration};
use model::Pod;

use super::PredicateFailure;

/// Rejects pods that do not tolerate a `NoExecute` taint. Static pods are exempt.
pub(super) fn check(pod: &Pod, taints: &[Taint]) -> Option<PredicateFailure> {
    let tolerations = pod.spec.tolerations.as_deref().unwrap_or_default();
    let is_untolerated = |taint: &Taint| {
        taint.effect == "NoExecute" && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    };
    let untolerated = !pod.is_static() && taints.iter().any(is_untolerated);
    untolerated.then_some(PredicateFailure::Predicate {
        name: "TaintToleration",
        description: "node(s) had taints that the pod didn't tolerate",
    })
}

pub(super) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => text(&toleration.value) == text(&taint.value),
        "Exists" => true,
        _ => false,
    }
}
