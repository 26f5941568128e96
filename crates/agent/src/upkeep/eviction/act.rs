//! Actions of eviction: reclaim orders and kills.

use std::sync::Arc;
use std::time::Duration;

use decide::admission::termination_timeout;
use decide::eviction::{EVICTED, EvictionNote, ReclaimAction};
use model::{
    EventSubject, EventType, KillOptions, Pod, PodUid, RecordedEvent, Rejection, RejectionKind, WorkerPhase,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Evictor;
use crate::pipeline::messages::{KillRequest, ReclaimOrder};

const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(120);
/// How long to wait for the cleanup of an evicted pod.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);
const EXCEEDED: &str = "ExceededGracePeriod";
const NOT_ENDED: &str = "Container runtime did not kill the pod within specified grace period.";

/// A pod that is being evicted.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    pod: Arc<Pod>,
    grace_seconds: u64,
}

impl Evictor {
    /// Sends the kill request of a pod.
    pub(super) fn end(
        &self,
        pod: &Arc<Pod>,
        kind: RejectionKind,
        signal: &str,
        grace_seconds: u64,
        note: EvictionNote,
    ) -> Victim {
        let rejection = Rejection { kind, reason: EVICTED.to_owned(), message: note.message.clone() };
        let options = KillOptions { grace_override: Some(grace_seconds), rejection: Some(rejection) };
        let request = KillRequest { uid: pod.uid.clone(), options, eviction: Some(note) };
        // Fails only while the agent is stopping.
        let _ = self.deps.kills.send(request);
        self.deps.metrics.evictions.evictions.inc([signal]);
        Victim { pod: Arc::clone(pod), grace_seconds }
    }

    /// Orders a collector to reclaim, and waits for it.
    pub(super) async fn order(&self, reclaim: ReclaimAction) {
        let collector = match reclaim {
            ReclaimAction::DeadContainers => &self.deps.collectors.containers,
            ReclaimAction::UnusedImages => &self.deps.collectors.images,
        };
        let (done, answer) = oneshot::channel();
        let given = async {
            if collector.send(ReclaimOrder { done }).await.is_ok() {
                // The collector has stopped.
                let _ = answer.await;
            }
        };
        if timeout(COLLECTOR_TIMEOUT, given).await.is_err() {
            tracing::warn!(?reclaim, "garbage collection did not finish in time");
        }
    }

    /// Waits until pods have ended, and for some time until they are cleaned up.
    pub(super) async fn wait_for_end(&self, victims: &[Victim]) {
        let ends = victims.iter().map(|victim| async {
            let ended = self.reaches(&victim.pod.uid, WorkerPhase::Terminated);
            if timeout(termination_timeout(victim.grace_seconds), ended).await.is_err() {
                tracing::warn!(pod = %victim.pod.full_name, "evicted pod did not end in time");
                self.warn(EventSubject::pod(&victim.pod, String::new()), EXCEEDED, NOT_ENDED);
            }
        });
        futures::future::join_all(ends).await;
        let gone = victims.iter().map(|victim| self.reaches(&victim.pod.uid, WorkerPhase::Finished));
        if timeout(CLEANUP_TIMEOUT, futures::future::join_all(gone)).await.is_err() {
            tracing::warn!("evicted pods were not cleaned up in time");
        }
    }

    async fn reaches(&self, uid: &PodUid, phase: WorkerPhase) {
        let mut changes = self.deps.workers.changes();
        while self.deps.workers.get(uid).is_some_and(|worker| worker.phase < phase) {
            if changes.changed().await.is_err() {
                // The pod workers have stopped: the agent is stopping.
                std::future::pending::<()>().await;
            }
        }
    }

    pub(super) fn warn_node(&self, reason: &str, message: &str) {
        self.warn(EventSubject::Node(self.deps.node.name.clone()), reason, message);
    }

    fn warn(&self, subject: EventSubject, reason: &str, message: &str) {
        let now = self.deps.clock.now();
        self.deps.events.record(RecordedEvent::new(subject, EventType::Warning, reason, message, now));
    }
}
