//! Delivery state of one pod's status.

use std::sync::Arc;

use decide::status::status_patch::status_patch;
use decide::status::status_report::{ContainerActivity, can_be_deleted, status_to_report, urgency};
use model::{Pod, PodUid, StatusUrgency, WorkerPhase};
use ports::api::ApiErrorKind;
use tokio::time::Instant;

use super::StatusDeliveryDeps;
use super::limiter::{WriteClass, after_rejection};
use super::writes::{Request, Target, Write, WriteOutcome};
use crate::pipeline::cached_status::CachedStatus;

#[derive(Default)]
pub(super) struct PodDelivery {
    /// The pod as our last write returned it, until the watch reports a newer version.
    written: Option<Arc<Pod>>,
    /// Whether the current API object has received our status.
    pub(super) has_written: bool,
    /// UID of the object that no longer exists.
    not_found: Option<PodUid>,
    /// UID of the object whose deletion was accepted; finalizers may keep it.
    deleted: Option<PodUid>,
    in_sync: Option<InSync>,
    /// Since when the two statuses differ.
    pub(super) differs_since: Option<Instant>,
    /// The next write. Evaluated again whenever the pod, its status or its worker changes.
    pub(super) next: Option<Write>,
    /// When `next` is due.
    pub(super) due: Option<(WriteClass, Instant)>,
    /// End of the backoff after a rejection.
    pub(super) not_before: Option<Instant>,
    rejections: u32,
    /// The last write may have arrived although its response was lost.
    in_doubt: bool,
    /// A write is in flight.
    pub(super) busy: bool,
}

/// The inputs of the last evaluation that found nothing to write.
struct InSync {
    local: Arc<CachedStatus>,
    api_pod: Arc<Pod>,
    worker: Option<WorkerPhase>,
}

impl PodDelivery {
    /// The next write; `None` when the statuses agree. After a lost response it only reads the object, because the earlier
    /// write may have arrived.
    pub(super) fn next_write(&mut self, deps: &StatusDeliveryDeps, pod: &Pod) -> Option<Write> {
        let api_pod = self.api_pod(deps, pod)?;
        if self.not_found.as_ref() == Some(&api_pod.uid) {
            return None;
        }
        let local = deps.statuses.get(&pod.uid)?;
        let worker = deps.workers.get(&pod.uid).map(|worker| worker.phase);
        let is_in_sync = self.in_sync.as_ref().is_some_and(|last| {
            Arc::ptr_eq(&last.local, &local) && Arc::ptr_eq(&last.api_pod, &api_pod) && last.worker == worker
        });
        if is_in_sync {
            return None;
        }
        let target = Target { uid: api_pod.uid.clone(), full_name: api_pod.full_name.clone() };
        let next =
            status_to_report(&api_pod.status, &local.read(), ContainerActivity::of(worker), deps.clock.now());
        if let Some(patch) = status_patch(&api_pod.uid, &api_pod.status, &next) {
            let urgency = urgency(&api_pod.status, &next);
            let request = if self.in_doubt { Request::Read } else { Request::Patch(patch) };
            return Some(Write { urgency, target, request });
        }
        self.has_written = true;
        if can_be_deleted(&api_pod, worker) && self.deleted.as_ref() != Some(&api_pod.uid) {
            return Some(Write { urgency: StatusUrgency::Urgent, target, request: Request::Delete });
        }
        self.in_sync = Some(InSync { local, api_pod, worker });
        None
    }

    /// Records since when the two statuses differ.
    pub(super) fn record_difference(&mut self, next: Option<&Write>, now: Instant) {
        self.differs_since = next.filter(|next| !next.is_delete()).map(|_| self.differs_since.unwrap_or(now));
    }

    /// The newest version of the object, from the watch or from our last write.
    fn api_pod(&mut self, deps: &StatusDeliveryDeps, pod: &Pod) -> Option<Arc<Pod>> {
        let api_pod = deps.api_pods.api_pod(pod)?;
        let newer = self
            .written
            .as_ref()
            .filter(|written| written.uid == api_pod.uid && version(written) > version(&api_pod));
        if let Some(written) = newer {
            return Some(Arc::clone(written));
        }
        if self.written.take().is_some_and(|written| written.uid != api_pod.uid) {
            // The mirror pod was recreated under the same name.
            self.has_written = false;
        }
        Some(api_pod)
    }

    /// Records the outcome of a write; `retry_from` is the start of the backoff of a rejected write.
    pub(super) fn apply(&mut self, target: &Target, outcome: WriteOutcome, retry_from: Option<Instant>) {
        match outcome {
            WriteOutcome::Patched(pod) => {
                self.written = Some(pod);
                self.has_written = true;
            }
            WriteOutcome::Read(pod) => self.written = Some(pod),
            WriteOutcome::Deleted => self.deleted = Some(target.uid.clone()),
            WriteOutcome::NotFound => self.not_found = Some(target.uid.clone()),
            WriteOutcome::Failed(error) if error.is_transient() => {
                self.in_doubt |= matches!(error.kind, ApiErrorKind::Unreachable | ApiErrorKind::Server);
                return;
            }
            WriteOutcome::Failed(error) => {
                self.rejections = self.rejections.saturating_add(1);
                self.not_before = retry_from.map(|at| after_rejection(at, self.rejections));
                tracing::warn!(pod = %target.full_name, uid = %target.uid, %error, "API server rejected pod status");
                return;
            }
        }
        self.rejections = 0;
        self.not_before = None;
        self.in_doubt = false;
    }
}

/// Resource versions are ordered numbers since Kubernetes 1.35.
fn version(pod: &Pod) -> Option<u64> {
    pod.metadata.resource_version.as_deref()?.parse().ok()
}
