//! What is done about a shortage.

use std::sync::Arc;
use std::time::Duration;

use decide::admission::end_within;
use decide::eviction::{EVICTED, EvictionNote, Reclaim};
use model::{EventSubject, EventType, KillOptions, Pod, PodUid, RecordedEvent, Rejection, WorkerPhase};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Guard;
use crate::messages::{KillRequest, ReclaimOrder};

/// Longest wait for a collector.
const COLLECTOR_LIMIT: Duration = Duration::from_secs(120);
/// Longest wait for what an ended pod leaves behind.
const CLEANUP_LIMIT: Duration = Duration::from_secs(30);
const EXCEEDED: &str = "ExceededGracePeriod";
const NOT_ENDED: &str = "Container runtime did not kill the pod within specified grace period.";

/// A pod that has to go.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    pod: Arc<Pod>,
    grace_seconds: u64,
}

impl Guard {
    /// Has a pod ended.
    pub(super) fn end(&self, pod: &Arc<Pod>, signal: &str, grace_seconds: u64, note: EvictionNote) -> Victim {
        let rejection = Rejection { reason: EVICTED.to_owned(), message: note.message.clone() };
        let options = KillOptions { grace_override: Some(grace_seconds), rejection: Some(rejection) };
        let request = KillRequest { uid: pod.uid.clone(), options, eviction: Some(note) };
        // Fails only while the agent stops.
        let _ = self.parts.kills.send(request);
        self.parts.metrics.evictions.evicted(signal);
        Victim { pod: Arc::clone(pod), grace_seconds }
    }

    /// Has a collector give up what nobody needs, and waits for it.
    pub(super) async fn order(&self, reclaim: Reclaim) {
        let collector = match reclaim {
            Reclaim::DeadContainers => &self.parts.collectors.containers,
            Reclaim::UnusedImages => &self.parts.collectors.images,
        };
        let (done, answer) = oneshot::channel();
        let given = async {
            if collector.send(ReclaimOrder { done }).await.is_ok() {
                // Nothing more comes of a collector that is gone.
                let _ = answer.await;
            }
        };
        if timeout(COLLECTOR_LIMIT, given).await.is_err() {
            tracing::warn!(?reclaim, "the collector takes too long");
        }
    }

    /// Waits for the end of pods, and then a while for what they leave behind.
    pub(super) async fn see_off(&self, victims: &[Victim]) {
        let ends = victims.iter().map(|victim| async {
            let ended = self.reaches(&victim.pod.uid, WorkerPhase::Terminated);
            if timeout(end_within(victim.grace_seconds), ended).await.is_err() {
                tracing::warn!(pod = %victim.pod.full_name, "an evicted pod does not end in time");
                self.warn(EventSubject::pod(&victim.pod, String::new()), EXCEEDED, NOT_ENDED.to_owned());
            }
        });
        futures::future::join_all(ends).await;
        let gone = victims.iter().map(|victim| self.reaches(&victim.pod.uid, WorkerPhase::Finished));
        if timeout(CLEANUP_LIMIT, futures::future::join_all(gone)).await.is_err() {
            tracing::warn!("evicted pods are not cleaned up in time");
        }
    }

    async fn reaches(&self, uid: &PodUid, phase: WorkerPhase) {
        let mut changes = self.parts.workers.changes();
        while self.parts.workers.get(uid).is_some_and(|worker| worker.phase < phase) {
            if changes.changed().await.is_err() {
                // The workers are gone: the agent is stopping.
                std::future::pending::<()>().await;
            }
        }
    }

    pub(super) fn warn_node(&self, reason: &str, message: String) {
        self.warn(EventSubject::Node(self.parts.node.name.clone()), reason, message);
    }

    fn warn(&self, subject: EventSubject, reason: &str, message: String) {
        self.parts.events.record(RecordedEvent {
            subject,
            kind: EventType::Warning,
            reason: reason.to_owned(),
            message,
            at: self.parts.clock.now(),
            annotations: std::collections::BTreeMap::new(),
        });
    }
}
