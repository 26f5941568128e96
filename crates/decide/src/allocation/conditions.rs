//! The conditions `PodResizePending` and `PodResizeInProgress`.

use k8s_openapi::api::core::v1::PodCondition;
use model::{PodAllocation, ResizeCondition, Timestamp};

/// Why a resize waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingReason {
    /// There is no room at the moment.
    Deferred,
    /// It can never be done here.
    Infeasible,
}

impl PendingReason {
    /// The API's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deferred => "Deferred",
            Self::Infeasible => "Infeasible",
        }
    }
}

/// Something to tell the user, or not again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It is new.
    Yes,
    /// It was told before.
    No,
}

/// Notes that a resize waits. It is news when the reason or the generation is another one.
pub fn set_pending(
    allocation: &mut PodAllocation,
    reason: PendingReason,
    message: String,
    generation: i64,
    now: Timestamp,
) -> News {
    let reason = reason.as_str();
    let before = allocation.pending.as_ref();
    let same = before.is_some_and(|old| old.reason == reason && old.generation == generation);
    let since = before.filter(|old| old.reason == reason).map_or(now, |old| old.since);
    allocation.pending = Some(ResizeCondition { reason: reason.to_owned(), message, since, generation });
    if same { News::No } else { News::Yes }
}

/// Nothing waits any more.
pub fn clear_pending(allocation: &mut PodAllocation) {
    allocation.pending = None;
}

/// Notes that what was granted is not in force yet; an error told before stays.
pub fn set_in_progress(allocation: &mut PodAllocation, generation: i64, now: Timestamp) {
    allocation.in_progress.get_or_insert_with(|| ResizeCondition {
        reason: String::new(),
        message: String::new(),
        since: now,
        generation,
    });
}

/// Notes that it failed. It is news when the message is another one.
pub fn set_in_progress_error(
    allocation: &mut PodAllocation,
    message: String,
    generation: i64,
    now: Timestamp,
) -> News {
    const ERROR: &str = "Error";
    let before = allocation.in_progress.take();
    let generation = before.as_ref().map_or(generation, |old| old.generation);
    let since = before.as_ref().filter(|old| old.reason == ERROR).map_or(now, |old| old.since);
    let same = before.is_some_and(|old| old.reason == ERROR && old.message == message);
    allocation.in_progress = Some(ResizeCondition { reason: ERROR.to_owned(), message, since, generation });
    if same { News::No } else { News::Yes }
}

/// What was granted is in force. Returns the generation that asked for it, if it was under way.
pub fn clear_in_progress(allocation: &mut PodAllocation) -> Option<i64> {
    allocation.in_progress.take().map(|condition| condition.generation)
}

/// Takes over what an agent before us said of a resize.
pub fn take_over(allocation: &mut PodAllocation, told: &[PodCondition]) {
    let find = |kind: &str| {
        let condition =
            told.iter().find(|condition| condition.type_ == kind && condition.status == "True")?;
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

/// The conditions as a status shows them.
#[must_use]
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
