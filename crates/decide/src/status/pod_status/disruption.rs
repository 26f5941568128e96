//! The `DisruptionTarget` condition of a pod that the agent terminates.

use k8s_openapi::api::core::v1::PodCondition;
use model::{Rejection, RejectionKind};

use super::{DISRUPTION, PodStatusInputs};
use crate::node::node_shutdown;

/// The condition for a pod that is preempted, evicted because of node pressure, or terminated by a node shutdown; `None`
/// if the pod has it already.
pub(super) fn disruption_condition(
    inputs: &PodStatusInputs<'_>,
    rejection: &Rejection,
    conditions: &[PodCondition],
) -> Option<PodCondition> {
    let message = match rejection.kind {
        RejectionKind::Preemption => "Pod was preempted by Kubelet to accommodate a critical pod.",
        RejectionKind::NodeShutdown => node_shutdown::MESSAGE,
        RejectionKind::NodePressure => &rejection.message,
        RejectionKind::Admission | RejectionKind::Deadline | RejectionKind::StorageLimit => return None,
    };
    let is_set = conditions.iter().any(|condition| condition.type_ == DISRUPTION);
    (!is_set).then(|| PodCondition {
        type_: DISRUPTION.to_owned(),
        status: "True".to_owned(),
        reason: Some("TerminationByKubelet".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(inputs.now.to_api_time()),
        observed_generation: inputs.pod.metadata.generation.filter(|generation| *generation != 0),
        ..PodCondition::default()
    })
}
