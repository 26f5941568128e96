use k8s_openapi::api::core::v1::{Taint, Toleration};
use model::Pod;

use super::Misfit;

/// Whether a taint of the node drives the pod out. Static pods are the node's own and stay.
pub(super) fn check(pod: &Pod, taints: &[Taint]) -> Option<Misfit> {
    let tolerations = pod.spec.tolerations.as_deref().unwrap_or_default();
    let drives_out = |taint: &Taint| {
        taint.effect == "NoExecute" && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    };
    let untolerated = !pod.is_static() && taints.iter().any(drives_out);
    untolerated.then_some(Misfit::Predicate {
        name: "TaintToleration",
        description: "node(s) had taints that the pod didn't tolerate",
    })
}

/// Whether a toleration is for the taint.
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
