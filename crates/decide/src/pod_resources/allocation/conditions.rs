//! The conditions `PodResizePending` and `PodResizeInProgress`.

use k8s_openapi::api::core::v1::PodCondition;
use model::{PodAllocation, ResizeCondition, Timestamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingReason {
    /// Not enough free resources at the moment.
    Deferred,
    /// The resize can never be allocated on this node.
    Infeasible,
}

impl PendingReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deferred => "Deferred",
            Self::Infeasible => "Infeasible",
        }
    }
}

/// Whether a condition changed, so that an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionUpdate {
    Changed,
    Unchanged,
}

/// Sets `PodResizePending`. The condition counts as changed if its reason or generation differs.
pub fn set_pending(
    allocation: &mut PodAllocation,
    reason: PendingReason,
    message: String,
    generation: i64,
    now: Timestamp,
) -> ConditionUpdate {
    let reason = reason.as_str();
    let before = allocation.pending.as_ref();
    let same = before.is_some_and(|old| old.reason == reason && old.generation == generation);
    let since = before.filter(|old| old.reason == reason).map_or(now, |old| old.since);
    allocation.pending = Some(ResizeCondition { reason: reason.to_owned(), message, since, generation });
    if same { ConditionUpdate::Unchanged } else { ConditionUpdate::Changed }
}

pub fn clear_pending(allocation: &mut PodAllocation) {
    allocation.pending = None;
}

/// Sets `PodResizeInProgress` unless it is set already; an earlier error stays.
pub fn set_in_progress(allocation: &mut PodAllocation, generation: i64, now: Timestamp) {
    allocation.in_progress.get_or_insert_with(|| ResizeCondition {
        reason: String::new(),
        message: String::new(),
        since: now,
        generation,
    });
}

/// Sets an error in `PodResizeInProgress`. The condition counts as changed if the message differs.
pub fn set_in_progress_error(
    allocation: &mut PodAllocation,
    message: String,
    generation: i64,
    now: Timestamp,
) -> ConditionUpdate {
    const ERROR: &str = "Error";
    let before = allocation.in_progress.take();
    let generation = before.as_ref().map_or(generation, |old| old.generation);
    let since = before.as_ref().filter(|old| old.reason == ERROR).map_or(now, |old| old.since);
    let same = before.is_some_and(|old| old.reason == ERROR && old.message == message);
    allocation.in_progress = Some(ResizeCondition { reason: ERROR.to_owned(), message, since, generation });
    if same { ConditionUpdate::Unchanged } else { ConditionUpdate::Changed }
}

/// Clears `PodResizeInProgress`. Returns the generation that requested the resize, if one was in progress.
pub fn clear_in_progress(allocation: &mut PodAllocation) -> Option<i64> {
    allocation.in_progress.take().map(|condition| condition.generation)
}

/// Adopts the conditions that an earlier agent reported.
pub fn adopt_conditions(allocation: &mut PodAllocation, reported: &[PodCondition]) {
    let find = |kind: &str| {
        let condition =
            reported.iter().find(|condition| condition.type_ == kind && condition.status == "True")?;
        Some(ResizeCondition {
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            since: condition.last_transition_time.as_ref().map(Timestamp::from_api_time).unwrap_or_default(),
            generation: condition.observed_generation.unwrap_or_default(),
        })
    };
    if allocation.pending.is_none() {
        allocation.pending = find("PodResizePending");
    }
    if allocation.in_progress.is_none() {
        allocation.in_progress = find("PodResizeInProgress");
    }
}

/// The conditions for the pod status.
pub fn resize_conditions(allocation: &PodAllocation) -> Vec<PodCondition> {
    let found = [("PodResizePending", &allocation.pending), ("PodResizeInProgress", &allocation.in_progress)];
    let one = |(kind, condition): (&str, &Option<ResizeCondition>)| {
        let condition = condition.as_ref()?;
        let text = |text: &String| (!text.is_empty()).then(|| text.clone());
        Some(PodCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            reason: text(&condition.reason),
            message: text(&condition.message),
            last_probe_time: Some(condition.since.to_api_time()),
            last_transition_time: Some(condition.since.to_api_time()),
            observed_generation: Some(condition.generation).filter(|generation| *generation != 0),
        })
    };
    found.into_iter().filter_map(one).collect()
}
