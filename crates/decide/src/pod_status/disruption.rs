use k8s_openapi::api::core::v1::PodCondition;
use model::Rejection;

use super::Facts;
use crate::eviction::{EVICTED, NODE_LOW};
use crate::node_shutdown;

const KIND: &str = "DisruptionTarget";

/// The condition that a pod gains when the agent ends it for what is no fault of its own: to make room for another one or
/// for the node, or because the machine ends.
pub(super) fn gained(
    facts: &Facts<'_>,
    rejection: &Rejection,
    conditions: &[PodCondition],
) -> Option<PodCondition> {
    let message = match rejection.reason.as_str() {
        "Preempting" => "Pod was preempted by Kubelet to accommodate a critical pod.",
        node_shutdown::REASON => node_shutdown::MESSAGE,
        // Who breaks a limit of its own is no victim of others.
        EVICTED if rejection.message.starts_with(NODE_LOW) => &rejection.message,
        _ => return None,
    };
    let known = conditions.iter().any(|condition| condition.type_ == KIND);
    (!known).then(|| PodCondition {
        type_: KIND.to_owned(),
        status: "True".to_owned(),
        reason: Some("TerminationByKubelet".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(facts.now.to_api_time()),
        observed_generation: facts.pod.metadata.generation.filter(|generation| *generation != 0),
        ..PodCondition::default()
    })
}
