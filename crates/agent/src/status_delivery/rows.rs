//! What is known of the delivery of one pod.

use std::sync::Arc;

use decide::status_patch::status_patch;
use decide::status_report::{Containers, Haste, can_be_deleted, haste, reported};
use model::{Pod, PodUid, WorkerPhase};
use ports::api::ApiErrorKind;
use ports::api::pods::Urgency;
use serde_json::Value;
use tokio::time::Instant;

use super::Parts;
use super::writes::{Ended, Target, Write};
use crate::kept_status::KeptStatus;

/// The delivery of one pod's status.
#[derive(Default)]
pub(super) struct Row {
    /// The pod as a write of ours returned it; counts until the watch shows something newer.
    written: Option<Arc<Pod>>,
    /// Whether a status of ours reached the object that is shown, or was found there.
    pub(super) has_written: bool,
    /// The object that is known to be gone.
    gone: Option<PodUid>,
    /// The object whose final delete was accepted; finalizers may keep it.
    deleted: Option<PodUid>,
    /// What was last found to need nothing.
    agreed: Option<Agreed>,
    /// Since when there is something to write.
    pub(super) differs_since: Option<Instant>,
    /// When the next write is due.
    pub(super) due: Option<(Urgency, Instant)>,
    /// Not to be written before, because the server refused it.
    pub(super) not_before: Option<Instant>,
    refusals: u32,
    /// Whether the last write may have arrived though its answer was lost.
    in_doubt: bool,
    /// Whether a write is under way.
    pub(super) busy: bool,
}

/// Both sides as they were when there was nothing to write.
struct Agreed {
    own: Arc<KeptStatus>,
    shown: Arc<Pod>,
    worker: Option<WorkerPhase>,
}

/// What is to be done for a pod.
pub(super) enum Step {
    Nothing,
    Patch {
        urgency: Urgency,
        /// Whether it may wait a moment for more.
        gather: bool,
        target: Target,
        patch: Value,
    },
    Delete {
        target: Target,
    },
}

impl Row {
    pub(super) fn next_step(&mut self, parts: &Parts, pod: &Pod) -> Step {
        let Some(shown) = self.shown(parts, pod) else { return Step::Nothing };
        if self.gone.as_ref() == Some(&shown.uid) {
            return Step::Nothing;
        }
        let Some(own) = parts.statuses.get(&pod.uid) else { return Step::Nothing };
        let worker = parts.workers.get(&pod.uid).map(|worker| worker.phase);
        let agrees = self.agreed.as_ref().is_some_and(|agreed| {
            Arc::ptr_eq(&agreed.own, &own) && Arc::ptr_eq(&agreed.shown, &shown) && agreed.worker == worker
        });
        if agrees {
            return Step::Nothing;
        }
        let target = Target { uid: shown.uid.clone(), full_name: shown.full_name.clone() };
        let next = reported(&shown.status, &own.read(), Containers::of(worker), parts.clock.now());
        if let Some(patch) = status_patch(&shown.uid, &shown.status, &next) {
            let haste = haste(&shown.status, &next);
            let urgency = if haste == Haste::Urgent { Urgency::Urgent } else { Urgency::Normal };
            return Step::Patch { urgency, gather: haste == Haste::Relaxed, target, patch };
        }
        self.has_written = true;
        if can_be_deleted(&shown, worker) && self.deleted.as_ref() != Some(&shown.uid) {
            return Step::Delete { target };
        }
        self.agreed = Some(Agreed { own, shown, worker });
        Step::Nothing
    }

    /// Notes since when the two statuses differ.
    pub(super) fn note_difference(&mut self, step: &Step, now: Instant) {
        match step {
            Step::Patch { .. } => {
                self.differs_since.get_or_insert(now);
            }
            Step::Nothing | Step::Delete { .. } => self.differs_since = None,
        }
    }

    /// The object as last seen, by the watch or by our own write.
    fn shown(&mut self, parts: &Parts, pod: &Pod) -> Option<Arc<Pod>> {
        let shown = parts.shown.shown(pod)?;
        let newer = self
            .written
            .as_ref()
            .filter(|written| written.uid == shown.uid && version(written) > version(&shown));
        if let Some(written) = newer {
            return Some(Arc::clone(written));
        }
        if self.written.take().is_some_and(|written| written.uid != shown.uid) {
            // Another object of the same name: a mirror pod that was made anew.
            self.has_written = false;
        }
        Some(shown)
    }

    /// The request that a step comes to. After a lost answer the object is looked at first: what arrived is not
    /// written twice.
    pub(super) fn request(&self, step: Step) -> Option<Write> {
        match step {
            Step::Nothing => None,
            Step::Patch { urgency, target, .. } if self.in_doubt => Some(Write::Look { urgency, target }),
            Step::Patch { urgency, target, patch, .. } => Some(Write::Patch { urgency, target, patch }),
            Step::Delete { target } => Some(Write::Delete { target }),
        }
    }

    /// Takes the end of a write; `again` is when a refused one may be tried again.
    pub(super) fn take(&mut self, target: &Target, ended: Ended, again: Option<Instant>) {
        match ended {
            Ended::Patched(pod) => {
                self.written = Some(pod);
                self.has_written = true;
            }
            Ended::Seen(pod) => self.written = Some(pod),
            Ended::Deleted => self.deleted = Some(target.uid.clone()),
            Ended::Gone => self.gone = Some(target.uid.clone()),
            Ended::Failed(error) if error.is_transient() => {
                self.in_doubt |= matches!(error.kind, ApiErrorKind::Unreachable | ApiErrorKind::Server);
                return;
            }
            Ended::Failed(error) => {
                self.refusals = self.refusals.saturating_add(1);
                self.not_before = again.map(|at| super::pace::after_refusal(at, self.refusals));
                tracing::warn!(pod = %target.full_name, uid = %target.uid, %error, "the API server refuses a status");
                return;
            }
        }
        self.refusals = 0;
        self.not_before = None;
        self.in_doubt = false;
    }
}

/// The order of an object's versions.
fn version(pod: &Pod) -> Option<u64> {
    pod.metadata.resource_version.as_deref()?.parse().ok()
}
