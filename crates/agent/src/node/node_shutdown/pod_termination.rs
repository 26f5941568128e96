//! Terminates pods, one priority group after the other.

use std::sync::Arc;
use std::time::Duration;

use decide::node::node_shutdown::{
    Remainder, ShutdownOnset, ShutdownPeriod, is_active, pods_to_terminate, remainder,
};
use model::{EventSubject, EventType, Pod, PodUid, RecordedEvent};
use tokio::time::Instant;

use super::NodeShutdownDeps;
use crate::pipeline::messages::KillRequest;

/// How long an agent that starts during a shutdown waits for its sources.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(5);
const LATE_REASON: &str = "ExceededGracePeriod";
const LATE_MESSAGE: &str = "Container runtime did not kill the pod within specified grace period.";

/// A pod that is being terminated.
#[derive(Debug)]
pub(super) struct PodTermination {
    pod: Arc<Pod>,
    /// When the pod counts as late; `None` once it has stopped or was reported.
    late_at: Option<Instant>,
}

impl NodeShutdownDeps {
    /// Terminates all groups of pods in order and waits for each group at most for its period.
    pub(super) async fn terminate_pods(&self, onset: ShutdownOnset) -> Vec<PodTermination> {
        let mut ready = self.sources_ready.clone();
        // After the timeout only the pods that are already known are terminated.
        let _ = tokio::time::timeout(SOURCES_TIMEOUT, ready.wait_for(|ready| *ready)).await;
        self.save_start(onset).await;
        let mut terminations: Vec<PodTermination> = Vec::new();
        for (index, period) in self.periods.iter().enumerate() {
            let is_terminating = |pod: &Pod| terminations.iter().any(|one| one.pod.uid == pod.uid);
            let group = pods_to_terminate(&self.periods, index, &self.active_pods(), is_terminating);
            if group.is_empty() {
                continue;
            }
            tracing::info!(
                priority = period.priority,
                seconds = period.seconds,
                pods = group.len(),
                "terminating pods"
            );
            let deadline = Instant::now() + period.time();
            let uids: Vec<PodUid> = group.iter().map(|pod| pod.uid.clone()).collect();
            terminations.extend(group.into_iter().map(|pod| self.terminate(period, pod)));
            if !self.wait(&uids, &mut terminations, Some(deadline)).await {
                tracing::warn!(
                    priority = period.priority,
                    "some pods did not terminate within the period of their group"
                );
            }
        }
        self.save_end().await;
        terminations
    }

    /// Waits for the remaining pods and reports those that are late.
    pub(super) async fn report_late_pods(&self, mut terminations: Vec<PodTermination>) {
        let uids: Vec<PodUid> = terminations.iter().map(|one| one.pod.uid.clone()).collect();
        self.wait(&uids, &mut terminations, None).await;
    }

    fn active_pods(&self) -> Vec<Arc<Pod>> {
        let mut pods = self.desired.all();
        pods.retain(|pod| is_active(pod, self.workers.get(&pod.uid).as_deref()));
        pods
    }

    fn terminate(&self, period: ShutdownPeriod, pod: Arc<Pod>) -> PodTermination {
        let plan = period.kill_plan(&pod);
        tracing::info!(pod = %pod.full_name, grace = ?plan.options.grace_override, "terminating pod for node shutdown");
        // Fails only while the agent stops.
        let _ = self.kills.send(KillRequest { uid: pod.uid.clone(), options: plan.options, eviction: None });
        PodTermination { late_at: Some(Instant::now() + plan.late_after), pod }
    }

    /// Waits until nothing of these pods is left; `false` after the deadline. Without a deadline, waits only while some pods
    /// can still become late.
    async fn wait(
        &self,
        uids: &[PodUid],
        terminations: &mut [PodTermination],
        deadline: Option<Instant>,
    ) -> bool {
        let mut changes = self.workers.changes();
        loop {
            changes.borrow_and_update();
            let next_late = self.report_late(terminations);
            if uids.iter().all(|uid| self.remainder(uid) == Remainder::Nothing) {
                return true;
            }
            let Some(wake) = [deadline, next_late].into_iter().flatten().min() else { return false };
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return false },
                () = tokio::time::sleep_until(wake) => if Some(wake) == deadline { return false },
            }
        }
    }

    /// Reports late pods, and returns when the next pod becomes late.
    fn report_late(&self, terminations: &mut [PodTermination]) -> Option<Instant> {
        let now = Instant::now();
        for one in terminations.iter_mut().filter(|one| one.late_at.is_some()) {
            if self.remainder(&one.pod.uid) != Remainder::Running {
                one.late_at = None;
            } else if one.late_at.is_some_and(|late_at| late_at <= now) {
                one.late_at = None;
                self.record_late_event(&one.pod);
            }
        }
        terminations.iter().filter_map(|one| one.late_at).min()
    }

    fn record_late_event(&self, pod: &Pod) {
        tracing::warn!(pod = %pod.full_name, "pod did not terminate within its grace period");
        let (subject, now) = (EventSubject::pod(pod, String::new()), self.clock.now());
        self.events.record(RecordedEvent::new(subject, EventType::Warning, LATE_REASON, LATE_MESSAGE, now));
    }

    fn remainder(&self, uid: &PodUid) -> Remainder {
        remainder(self.desired.get(uid).as_deref(), self.workers.get(uid).as_deref())
    }
}
