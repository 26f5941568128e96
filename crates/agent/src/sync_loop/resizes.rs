use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use decide::allocation::{
    News, PendingReason, WaitingResize, clear_in_progress, clear_pending, infeasible, is_increase, is_resize,
    pending_message, resize_order, set_in_progress, set_pending, started_message, take_over,
};
use decide::housekeeping::Situation;
use decide::resize_requests::resize_requests;
use model::{
    EventSubject, EventType, Pod, PodAllocation, PodUid, RecordedEvent, Rejection, UpdateKind, WorkerPhase,
};
use tokio::time::Instant;

use super::SyncLoop;

/// Time between two looks at resizes that wait, if nothing else makes room.
const RETRY: Duration = Duration::from_secs(180);

/// Resizes that wait for room.
pub(super) struct PendingResizes {
    pods: Vec<PodUid>,
    retry_at: Instant,
    /// Pods that were alive at the last look: fewer of them may mean room.
    alive: usize,
}

impl PendingResizes {
    pub(super) fn new() -> Self {
        Self { pods: Vec::new(), retry_at: Instant::now(), alive: 0 }
    }

    pub(super) fn push(&mut self, uid: &PodUid) {
        if !self.pods.contains(uid) {
            self.pods.push(uid.clone());
        }
    }
}

impl SyncLoop {
    /// A pod changed: a resize is tried at once, one that was taken back waits no more.
    pub(super) fn note_resize(&mut self, old: Option<&Pod>, new: &Pod) {
        if !old.is_none_or(|old| is_resize(old, new)) {
            return;
        }
        for request in old.map(|old| resize_requests(old, new)).unwrap_or_default() {
            self.parts.metrics.resizes.requested(request.resource, request.requirement, request.operation);
        }
        if self.parts.allocations.differs(new) {
            self.resizes.push(&new.uid);
            self.retry_resizes("pod_updated");
        } else {
            self.parts.allocations.change(&new.uid, clear_pending);
        }
    }

    /// Admits a pod with what was granted to it before, if it was: what it asks for beyond that is a resize.
    pub(super) fn admit_granted(&mut self, pod: &Arc<Pod>) -> Result<(), Rejection> {
        let granted = self.parts.allocations.granted(pod);
        self.admit(&granted)?;
        self.parts.allocations.grant(&granted);
        if self.parts.allocations.differs(pod) {
            self.resizes.push(&pod.uid);
        }
        Ok(())
    }

    /// Goes on with a pod that runs already: it holds what was granted to it, and is not asked whether it may.
    pub(super) fn adopt(&mut self, pod: &Arc<Pod>) {
        let granted = self.parts.allocations.granted(pod);
        self.occupancy.insert(&granted);
        self.parts.allocations.grant(&granted);
        let told = pod.status.conditions.as_deref().unwrap_or_default();
        self.parts.allocations.change(&pod.uid, |own| take_over(own, told));
        if self.parts.allocations.differs(pod) {
            self.resizes.push(&pod.uid);
        }
    }

    /// Forgets pods that are gone, and tries resizes again if it is time.
    pub(super) fn keep_allocations(&mut self, situation: &Situation) {
        let workers = &situation.workers;
        let known: HashSet<&PodUid> = situation
            .desired
            .iter()
            .map(|pod| &pod.uid)
            .chain(workers.iter().map(|worker| &worker.uid))
            .chain(situation.observed.iter().map(|pod| &pod.uid))
            .collect();
        self.parts.allocations.retain(|uid| known.contains(uid));
        let alive = workers.iter().filter(|worker| worker.phase < WorkerPhase::Terminated).count();
        self.retry_resizes_if_due(alive);
    }

    /// The same when nothing has changed.
    pub(super) fn keep_same_allocations(&mut self) {
        self.retry_resizes_if_due(self.resizes.alive);
    }

    /// Tries resizes again if it is time, or if a pod ended since.
    fn retry_resizes_if_due(&mut self, alive: usize) {
        let fewer = alive < std::mem::replace(&mut self.resizes.alive, alive);
        if fewer {
            self.retry_resizes("pod_terminated");
        } else if Instant::now() >= self.resizes.retry_at {
            self.retry_resizes("periodic_retry");
        }
    }

    /// Tries all resizes that wait, in their order, because of `trigger`. Before every source has spoken nobody knows what is free.
    pub(super) fn retry_resizes(&mut self, trigger: &str) {
        if self.resizes.pods.is_empty() || !self.ready_sources.is_superset(&self.parts.sources) {
            return;
        }
        self.resizes.retry_at = Instant::now() + RETRY;
        let desired = self.parts.desired.reader();
        let mut waiting: Vec<Waiting> = self
            .resizes
            .pods
            .drain(..)
            .filter_map(|uid| desired.get(&uid))
            .map(|asked| Waiting {
                granted: self.parts.allocations.granted(&asked),
                allocation: self.parts.allocations.get(&asked.uid).unwrap_or_default(),
                asked,
            })
            .collect();
        waiting.sort_by(|one, other| resize_order(&one.place(), &other.place()));
        let mut trigger = trigger;
        for Waiting { asked, granted, allocation } in waiting {
            match self.try_resize(&asked, &granted) {
                Tried::Granted => {
                    if is_increase(&granted, &asked) {
                        // Whoever gets its share from here on has it from a pod that was made smaller.
                        trigger = "pod_resized";
                    }
                    let deferred = PendingReason::Deferred.as_str();
                    if allocation.pending.as_ref().is_some_and(|pending| pending.reason == deferred) {
                        self.parts.metrics.resizes.accepted(trigger);
                    }
                }
                Tried::Done => {}
                Tried::Wait => self.resizes.push(&asked.uid),
            }
        }
    }

    fn try_resize(&mut self, asked: &Arc<Pod>, granted: &Arc<Pod>) -> Tried {
        let allocations = &self.parts.allocations;
        if !allocations.differs(asked) {
            allocations.change(&asked.uid, clear_pending);
            return Tried::Done;
        }
        let generation = asked.metadata.generation.unwrap_or(0);
        if let Some(cause) = infeasible(asked, granted, &self.parts.settings) {
            let news = self.resize_waits(asked, PendingReason::Infeasible, cause.message(), generation);
            if news == News::Yes {
                self.parts.metrics.resizes.infeasible(cause.label());
            }
            return Tried::Done;
        }
        if let Err(rejection) = self.admit(asked) {
            // It goes on with what it has.
            self.occupancy.insert(granted);
            self.resize_waits(asked, PendingReason::Deferred, &rejection.message, generation);
            return Tried::Wait;
        }
        let now = self.now();
        let allocations = &self.parts.allocations;
        allocations.grant(asked);
        allocations.change(&asked.uid, |own| {
            clear_pending(own);
            // What went wrong with an earlier resize is over.
            clear_in_progress(own);
            set_in_progress(own, generation, now);
        });
        let message = started_message(asked, generation);
        self.resize_event(asked, EventType::Normal, "ResizeStarted", message);
        self.order(UpdateKind::Sync, asked, None);
        Tried::Granted
    }

    fn resize_waits(&self, pod: &Pod, reason: PendingReason, message: &str, generation: i64) -> News {
        let now = self.now();
        let news = self
            .parts
            .allocations
            .change(&pod.uid, |own| set_pending(own, reason, message.to_owned(), generation, now));
        if news == News::Yes {
            let event = match reason {
                PendingReason::Deferred => "ResizeDeferred",
                PendingReason::Infeasible => "ResizeInfeasible",
            };
            let message = pending_message(pod, reason, message, generation);
            self.resize_event(pod, EventType::Warning, event, message);
        }
        news
    }

    fn resize_event(&self, pod: &Pod, kind: EventType, reason: &str, message: String) {
        self.parts.recorder.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::pod(pod, String::new()),
            kind,
            reason: reason.to_owned(),
            message,
            at: self.now(),
        });
    }
}

struct Waiting {
    asked: Arc<Pod>,
    granted: Arc<Pod>,
    allocation: Arc<PodAllocation>,
}

impl Waiting {
    fn place(&self) -> WaitingResize<'_> {
        WaitingResize { asked: &self.asked, granted: &self.granted, allocation: &self.allocation }
    }
}

enum Tried {
    Granted,
    Done,
    Wait,
}
