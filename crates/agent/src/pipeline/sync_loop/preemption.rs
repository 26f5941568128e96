//! Critical pods that wait until the pods preempted for them have terminated.

use std::sync::Arc;

use decide::admission::preemption_timeout;
use model::{Pod, PodUid, UpdateKind, WorkerPhase};
use tokio::time::Instant;

use super::SyncLoop;

const EXCEEDED_GRACE_PERIOD: &str = "ExceededGracePeriod";
const NOT_KILLED_IN_TIME: &str = "Container runtime did not kill the pod within specified grace period.";

/// Admitted pods that wait for their victims.
#[derive(Debug, Default)]
pub(super) struct PendingPreemptions {
    waiting: Vec<PreemptingPod>,
}

#[derive(Debug)]
struct PreemptingPod {
    uid: PodUid,
    /// The resource that is insufficient.
    missing: String,
    victims: Vec<Victim>,
}

#[derive(Debug)]
struct Victim {
    pod: Arc<Pod>,
    deadline: Instant,
}

impl PendingPreemptions {
    /// Lets a pod wait for `victims`, which are preempted for the resource `missing`.
    pub(super) fn wait(&mut self, uid: &PodUid, missing: String, victims: Vec<Arc<Pod>>, now: Instant) {
        let victims = victims.into_iter().map(|pod| Victim { deadline: now + preemption_timeout(&pod), pod });
        self.waiting.push(PreemptingPod { uid: uid.clone(), missing, victims: victims.collect() });
    }

    pub(super) fn holds(&self, uid: &PodUid) -> bool {
        self.waiting.iter().any(|waiting| waiting.uid == *uid)
    }

    pub(super) fn remove(&mut self, uid: &PodUid) {
        self.waiting.retain(|waiting| waiting.uid != *uid);
    }

    /// The earliest deadline of a victim.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().flat_map(|waiting| &waiting.victims).map(|victim| victim.deadline).min()
    }

    /// Removes victims that have terminated or missed their deadline, and the pods that wait for no victim any more.
    fn settle(&mut self, is_terminated: impl Fn(&PodUid) -> bool, now: Instant) -> SettledWaits {
        let mut settled = SettledWaits::default();
        for waiting in &mut self.waiting {
            waiting.victims.retain(|victim| {
                if is_terminated(&victim.pod.uid) {
                    settled.missing_of_ended.push(waiting.missing.clone());
                    return false;
                }
                if victim.deadline <= now {
                    settled.late.push(Arc::clone(&victim.pod));
                    return false;
                }
                true
            });
            if waiting.victims.is_empty() {
                settled.ready.push(waiting.uid.clone());
            }
        }
        self.waiting.retain(|waiting| !waiting.victims.is_empty());
        settled
    }
}

/// Waits that ended.
#[derive(Debug, Default, PartialEq)]
struct SettledWaits {
    /// Pods that may start.
    ready: Vec<PodUid>,
    /// The insufficient resource, once for each victim that terminated.
    missing_of_ended: Vec<String>,
    /// Victims that missed their deadline.
    late: Vec<Arc<Pod>>,
}

impl SyncLoop {
    /// Starts the pods whose victims have terminated or missed their deadline, as upstream does.
    pub(super) fn handle_preemptions(&mut self) {
        let views = self.deps.worker_views.clone();
        let is_terminated =
            |uid: &PodUid| views.get(uid).is_none_or(|worker| worker.phase >= WorkerPhase::Terminated);
        let settled = self.preemptions.settle(is_terminated, Instant::now());
        for missing in &settled.missing_of_ended {
            self.deps.metrics.pods.preemptions.inc([missing]);
        }
        for victim in settled.late {
            tracing::warn!(pod = %victim.full_name, "preempted pod did not terminate in time, starting the critical pod anyway");
            self.warn(&victim, EXCEEDED_GRACE_PERIOD, NOT_KILLED_IN_TIME);
        }
        let desired = self.deps.desired.reader();
        for pod in settled.ready.iter().filter_map(|uid| desired.get(uid)) {
            self.send_command(UpdateKind::Create, &pod, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn pod(name: &str, grace: i64) -> Arc<Pod> {
        let spec = json!({"containers": [], "terminationGracePeriodSeconds": grace});
        Arc::new(testkit::builders::pod(name, model::PodSource::Api, spec))
    }

    #[tokio::test(start_paused = true)]
    async fn pod_starts_when_its_last_victim_terminated_or_is_late() {
        let (now, critical) = (Instant::now(), PodUid::from("critical"));
        let (quick, slow) = (pod("quick", 1), pod("slow", 30));
        let mut preemptions = PendingPreemptions::default();
        preemptions.wait(&critical, "cpu".to_owned(), vec![Arc::clone(&quick), Arc::clone(&slow)], now);
        assert!(preemptions.holds(&critical) && !preemptions.holds(&quick.uid));
        assert_eq!(preemptions.next_deadline(), Some(now + Duration::from_secs(10)));
        let ended = |uid: &PodUid| *uid == PodUid::from("quick");
        let settled = preemptions.settle(ended, now);
        assert_eq!(
            settled,
            SettledWaits { missing_of_ended: vec!["cpu".to_owned()], ..SettledWaits::default() }
        );
        assert_eq!(preemptions.next_deadline(), Some(now + Duration::from_secs(45)));
        let settled = preemptions.settle(|_| false, now + Duration::from_secs(45));
        assert_eq!((settled.ready, settled.late), (vec![critical.clone()], vec![Arc::clone(&slow)]));
        assert_eq!(preemptions.next_deadline(), None);
        preemptions.wait(&critical, "cpu".to_owned(), vec![slow], now);
        assert_eq!(preemptions.settle(|_| true, now).ready, std::slice::from_ref(&critical));
        preemptions.wait(&critical, "cpu".to_owned(), vec![quick], now);
        preemptions.remove(&critical);
        assert_eq!(preemptions.next_deadline(), None);
    }
}
