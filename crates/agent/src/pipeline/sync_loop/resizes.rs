use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use decide::pipeline::housekeeping::HousekeepingInputs;
use decide::pod_resources::allocation::{
    ConditionUpdate, PendingReason, PendingResize, adopt_conditions, clear_in_progress, clear_pending,
    infeasible, is_increase, is_resize, pending_message, resize_order, set_in_progress, set_pending,
    started_message,
};
use decide::pod_resources::resize_requests::resize_requests;
use model::{EventType, Pod, PodAllocation, PodUid, UpdateKind, WorkerPhase};
use tokio::time::Instant;

use super::SyncLoop;

/// Time between two retries of deferred resizes, if no other event triggers one.
const RETRY_PERIOD: Duration = Duration::from_secs(180);

/// Resizes to retry when resources become free.
pub(super) struct PendingResizes {
    pods: Vec<PodUid>,
    retry_at: Instant,
    /// Number of workers that were not terminated at the last sweep: fewer of them may mean free resources.
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
    /// Tries the resize of a changed pod, or clears its pending condition if the spec matches the allocation again.
    pub(super) fn handle_resize(&mut self, old: Option<&Pod>, new: &Pod) {
        if !old.is_none_or(|old| is_resize(old, new)) {
            return;
        }
        for request in old.map(|old| resize_requests(old, new)).unwrap_or_default() {
            let labels = [request.operation, request.requirement, request.resource];
            self.deps.metrics.resizes.requested.inc(labels);
        }
        if self.deps.allocations.differs_from_spec(new) {
            self.resizes.push(&new.uid);
            self.retry_resizes("pod_updated");
        } else {
            self.deps.allocations.change(&new.uid, clear_pending);
        }
    }

    /// Adopts a pod that already runs: it keeps its allocation without an admission check.
    pub(super) fn adopt(&mut self, pod: &Arc<Pod>) {
        let allocated = self.deps.allocations.allocated(pod);
        self.occupancy.insert(&allocated);
        self.deps.allocations.allocate(&allocated);
        // The state has the CPUs of a pod that was started with them. A pod of another policy gets some if they are free.
        if let Err(rejection) = self.deps.allocations.managed().adopt(&allocated) {
            tracing::warn!(pod = %pod.full_name, reason = %rejection.message, "failed to allocate managed resources for a running pod, it keeps running without");
        }
        let reported = pod.status.conditions.as_deref().unwrap_or_default();
        self.deps.allocations.change(&pod.uid, |allocation| adopt_conditions(allocation, reported));
        if self.deps.allocations.differs_from_spec(pod) {
            self.resizes.push(&pod.uid);
        }
    }

    /// Drops the allocations of pods that no longer exist, and retries resizes if they are due.
    pub(super) fn sweep_allocations(&mut self, inputs: &HousekeepingInputs) {
        let workers = &inputs.workers;
        let existing: HashSet<&PodUid> = inputs
            .desired
            .iter()
            .map(|pod| &pod.uid)
            .chain(workers.iter().map(|worker| &worker.uid))
            .chain(inputs.observed.iter().map(|pod| &pod.uid))
            .collect();
        self.deps.allocations.retain(|uid| existing.contains(uid));
        self.release_managed_resources();
        let alive = workers.iter().filter(|worker| worker.phase < WorkerPhase::Terminated).count();
        self.retry_resizes_if_due(alive);
    }

    /// Retries due resizes when the inputs of the sweep have not changed.
    pub(super) fn retry_resizes_when_idle(&mut self) {
        self.retry_resizes_if_due(self.resizes.alive);
    }

    /// Retries resizes if they are due or a pod has terminated since.
    fn retry_resizes_if_due(&mut self, alive: usize) {
        let fewer = alive < std::mem::replace(&mut self.resizes.alive, alive);
        if fewer {
            self.retry_resizes("pod_terminated");
        } else if Instant::now() >= self.resizes.retry_at {
            self.retry_resizes("periodic_retry");
        }
    }

    /// Retries all pending resizes in priority order. Does nothing before every source has sent a snapshot, because the free
    /// resources are unknown until then. `trigger` is a metric label.
    pub(super) fn retry_resizes(&mut self, trigger: &str) {
        if self.resizes.pods.is_empty() || !self.ready_sources.is_superset(&self.deps.sources) {
            return;
        }
        self.resizes.retry_at = Instant::now() + RETRY_PERIOD;
        let desired = self.deps.desired.reader();
        let mut waiting: Vec<WaitingResize> = self
            .resizes
            .pods
            .drain(..)
            .filter_map(|uid| desired.get(&uid))
            .map(|requested| WaitingResize {
                allocated: self.deps.allocations.allocated(&requested),
                allocation: self.deps.allocations.get(&requested.uid).unwrap_or_default(),
                requested,
            })
            .collect();
        waiting.sort_by(|one, other| resize_order(&one.as_pending(), &other.as_pending()));
        let mut trigger = trigger;
        for WaitingResize { requested, allocated, allocation } in waiting {
            match self.try_resize(&requested, &allocated) {
                ResizeAttempt::Allocated => {
                    if is_increase(&allocated, &requested) {
                        // Later resizes in this loop succeed because of this pod's decrease.
                        trigger = "pod_resized";
                    }
                    let deferred = PendingReason::Deferred.as_str();
                    if allocation.pending.as_ref().is_some_and(|pending| pending.reason == deferred) {
                        self.deps.metrics.resizes.accepted.inc([trigger]);
                    }
                }
                ResizeAttempt::Settled => {}
                ResizeAttempt::Deferred => self.resizes.push(&requested.uid),
            }
        }
    }

    fn try_resize(&mut self, requested: &Arc<Pod>, allocated: &Arc<Pod>) -> ResizeAttempt {
        let allocations = &self.deps.allocations;
        if !allocations.differs_from_spec(requested) {
            allocations.change(&requested.uid, clear_pending);
            return ResizeAttempt::Settled;
        }
        let generation = requested.metadata.generation.unwrap_or(0);
        if let Some(cause) = infeasible(requested, allocated, &self.deps.settings) {
            let update =
                self.set_resize_pending(requested, PendingReason::Infeasible, cause.message(), generation);
            if update == ConditionUpdate::Changed {
                self.deps.metrics.resizes.infeasible.inc([cause.label()]);
            }
            return ResizeAttempt::Settled;
        }
        if let Err(rejection) = self.admit_resize(requested) {
            // The pod keeps its current allocation.
            self.occupancy.insert(allocated);
            self.set_resize_pending(requested, PendingReason::Deferred, &rejection.message, generation);
            return ResizeAttempt::Deferred;
        }
        let now = self.now();
        let allocations = &self.deps.allocations;
        allocations.allocate(requested);
        allocations.change(&requested.uid, |allocation| {
            clear_pending(allocation);
            // Drops the error of an earlier resize.
            clear_in_progress(allocation);
            set_in_progress(allocation, generation, now);
        });
        let message = started_message(requested, generation);
        self.record_event(requested, EventType::Normal, "ResizeStarted", &message);
        self.send_command(UpdateKind::Sync, requested, None);
        ResizeAttempt::Allocated
    }

    fn set_resize_pending(
        &self,
        pod: &Pod,
        reason: PendingReason,
        message: &str,
        generation: i64,
    ) -> ConditionUpdate {
        let now = self.now();
        let update = self.deps.allocations.change(&pod.uid, |allocation| {
            set_pending(allocation, reason, message.to_owned(), generation, now)
        });
        if update == ConditionUpdate::Changed {
            let event = match reason {
                PendingReason::Deferred => "ResizeDeferred",
                PendingReason::Infeasible => "ResizeInfeasible",
            };
            self.warn(pod, event, &pending_message(pod, reason, message, generation));
        }
        update
    }
}

struct WaitingResize {
    requested: Arc<Pod>,
    allocated: Arc<Pod>,
    allocation: Arc<PodAllocation>,
}

impl WaitingResize {
    fn as_pending(&self) -> PendingResize<'_> {
        PendingResize { desired: &self.requested, allocated: &self.allocated, allocation: &self.allocation }
    }
}

enum ResizeAttempt {
    Allocated,
    Settled,
    Deferred,
}
