//! Ends pods, one group after the other.

use std::sync::Arc;
use std::time::Duration;

use decide::node_shutdown::{Onset, Period, Remainder, due, is_active, remainder};
use model::{EventSubject, EventType, Pod, PodUid, RecordedEvent};
use tokio::time::Instant;

use super::Parts;
use crate::messages::KillRequest;

/// How long an agent that starts while the machine goes down waits for its sources.
const SOURCES: Duration = Duration::from_secs(5);
const LATE: &str = "ExceededGracePeriod";
const LATE_MESSAGE: &str = "Container runtime did not kill the pod within specified grace period.";

/// A pod that was told to end.
#[derive(Debug)]
pub(super) struct Ordered {
    pod: Arc<Pod>,
    /// When it should have stopped; `None` once it has, or was told as late.
    late_at: Option<Instant>,
}

impl Parts {
    /// Ends all pods in their order, each group in its time. Returns whom it told to.
    pub(super) async fn end_pods(&self, onset: Onset) -> Vec<Ordered> {
        let mut ready = self.sources_ready.clone();
        // Without a source that is out of reach, what is known of before must do.
        let _ = tokio::time::timeout(SOURCES, ready.wait_for(|ready| *ready)).await;
        self.record_begin(onset).await;
        let mut ordered: Vec<Ordered> = Vec::new();
        for (place, period) in self.periods.iter().enumerate() {
            let known = |pod: &Pod| ordered.iter().any(|one| one.pod.uid == pod.uid);
            let group = due(&self.periods, place, &self.active_pods(), known);
            // Nobody is waited for in vain.
            if group.is_empty() {
                continue;
            }
            tracing::info!(
                priority = period.priority,
                seconds = period.seconds,
                pods = group.len(),
                "ending pods"
            );
            let over = Instant::now() + period.time();
            let uids: Vec<PodUid> = group.iter().map(|pod| pod.uid.clone()).collect();
            ordered.extend(group.into_iter().map(|pod| self.order(period, pod)));
            if !self.wait(&uids, &mut ordered, Some(over)).await {
                tracing::warn!(priority = period.priority, "not all pods ended in the time of their group");
            }
        }
        self.record_end().await;
        ordered
    }

    /// Waits for those that are not through, to tell of those that are late.
    pub(super) async fn tell_all_late(&self, mut ordered: Vec<Ordered>) {
        let uids: Vec<PodUid> = ordered.iter().map(|one| one.pod.uid.clone()).collect();
        self.wait(&uids, &mut ordered, None).await;
    }

    fn active_pods(&self) -> Vec<Arc<Pod>> {
        let mut pods = self.desired.all();
        pods.retain(|pod| is_active(pod, self.workers.get(&pod.uid).as_deref()));
        pods
    }

    fn order(&self, period: Period, pod: Arc<Pod>) -> Ordered {
        let ending = period.ending_of(&pod);
        tracing::info!(pod = %pod.full_name, grace = ?ending.order.grace_override, "ending a pod with the machine");
        // Fails only while the agent stops.
        let _ = self.kills.send(KillRequest { uid: pod.uid.clone(), options: ending.order, eviction: None });
        Ordered { late_at: Some(Instant::now() + ending.late_after), pod }
    }

    /// Waits until nothing of these pods is left, or until then. Without an end, only as long as some may become late.
    async fn wait(&self, uids: &[PodUid], ordered: &mut [Ordered], until: Option<Instant>) -> bool {
        let mut changes = self.workers.changes();
        loop {
            changes.borrow_and_update();
            let next_late = self.tell_late(ordered);
            if uids.iter().all(|uid| self.remainder(uid) == Remainder::Nothing) {
                return true;
            }
            let Some(wake) = [until, next_late].into_iter().flatten().min() else { return false };
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return false },
                () = tokio::time::sleep_until(wake) => if Some(wake) == until { return false },
            }
        }
    }

    /// Tells of pods that should have stopped, and says when the next one should have.
    fn tell_late(&self, ordered: &mut [Ordered]) -> Option<Instant> {
        let now = Instant::now();
        for one in ordered.iter_mut().filter(|one| one.late_at.is_some()) {
            if self.remainder(&one.pod.uid) != Remainder::Running {
                one.late_at = None;
            } else if one.late_at.is_some_and(|late_at| late_at <= now) {
                one.late_at = None;
                self.tell_of(&one.pod);
            }
        }
        ordered.iter().filter_map(|one| one.late_at).min()
    }

    fn tell_of(&self, pod: &Pod) {
        tracing::warn!(pod = %pod.full_name, "a pod does not end with the machine in time");
        self.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::pod(pod, String::new()),
            kind: EventType::Warning,
            reason: LATE.to_owned(),
            message: LATE_MESSAGE.to_owned(),
            at: self.clock.now(),
        });
    }

    fn remainder(&self, uid: &PodUid) -> Remainder {
        remainder(self.desired.get(uid).as_deref(), self.workers.get(uid).as_deref())
    }
}
