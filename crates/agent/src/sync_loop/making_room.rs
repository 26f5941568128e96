//! Critical pods that wait for the end of those that make room for them.

use std::sync::Arc;

use decide::admission::end_by;
use model::{Pod, PodUid, UpdateKind, WorkerPhase};
use tokio::time::Instant;

use super::SyncLoop;

const EXCEEDED: &str = "ExceededGracePeriod";
const NOT_ENDED: &str = "Container runtime did not kill the pod within specified grace period.";

/// Admitted pods that are not begun yet.
#[derive(Debug, Default)]
pub(super) struct MakingRoom {
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    uid: PodUid,
    /// What the node runs short of.
    missing: String,
    victims: Vec<Victim>,
}

#[derive(Debug)]
struct Victim {
    pod: Arc<Pod>,
    deadline: Instant,
}

impl MakingRoom {
    /// A pod waits for these, which end for what is missing.
    pub(super) fn wait(&mut self, uid: &PodUid, missing: String, victims: Vec<Arc<Pod>>, now: Instant) {
        let victims = victims.into_iter().map(|pod| Victim { deadline: now + end_by(&pod), pod });
        self.waiting.push(Waiting { uid: uid.clone(), missing, victims: victims.collect() });
    }

    /// Whether a pod waits.
    pub(super) fn holds(&self, uid: &PodUid) -> bool {
        self.waiting.iter().any(|waiting| waiting.uid == *uid)
    }

    /// A pod is wanted no more.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.waiting.retain(|waiting| waiting.uid != *uid);
    }

    /// When somebody has waited long enough.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().flat_map(|waiting| &waiting.victims).map(|victim| victim.deadline).min()
    }

    /// Takes out the pods that may begin, and those that were waited for and ended, or did not in time.
    fn settle(&mut self, has_ended: impl Fn(&PodUid) -> bool, now: Instant) -> Settled {
        let mut settled = Settled::default();
        for waiting in &mut self.waiting {
            waiting.victims.retain(|victim| {
                if has_ended(&victim.pod.uid) {
                    settled.ended_for.push(waiting.missing.clone());
                    return false;
                }
                if victim.deadline <= now {
                    settled.late.push(Arc::clone(&victim.pod));
                    return false;
                }
                true
            });
            if waiting.victims.is_empty() {
                settled.begin.push(waiting.uid.clone());
            }
        }
        self.waiting.retain(|waiting| !waiting.victims.is_empty());
        settled
    }
}

/// Whom the wait is over for.
#[derive(Debug, Default, PartialEq)]
struct Settled {
    /// Pods that have their room.
    begin: Vec<PodUid>,
    /// What was missing, once for each pod that ended.
    ended_for: Vec<String>,
    /// Pods that did not end in time.
    late: Vec<Arc<Pod>>,
}

impl SyncLoop {
    /// Begins the pods whose room is there. One that waited in vain begins all the same, as under upstream.
    pub(super) fn handle_room(&mut self) {
        let views = self.parts.worker_views.clone();
        let has_ended =
            |uid: &PodUid| views.get(uid).is_none_or(|worker| worker.phase >= WorkerPhase::Terminated);
        let settled = self.making_room.settle(has_ended, Instant::now());
        settled.ended_for.iter().for_each(|missing| self.parts.metrics.pods.preempted(missing));
        for victim in settled.late {
            tracing::warn!(pod = %victim.full_name, "a pod that makes room for a critical one does not end in time");
            self.warn(&victim, EXCEEDED, NOT_ENDED);
        }
        let desired = self.parts.desired.reader();
        for pod in settled.begin.iter().filter_map(|uid| desired.get(uid)) {
            self.order(UpdateKind::Create, &pod, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn pod(name: &str, grace: i64) -> Arc<Pod> {
        let object = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [], "terminationGracePeriodSeconds": grace},
        }));
        Arc::new(Pod::from_object(object.unwrap(), model::PodSource::Api).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_begins_when_its_last_victim_has_ended_or_is_late() {
        let (now, critical) = (Instant::now(), PodUid::from("critical"));
        let (quick, slow) = (pod("quick", 1), pod("slow", 30));
        let mut room = MakingRoom::default();
        room.wait(&critical, "cpu".to_owned(), vec![Arc::clone(&quick), Arc::clone(&slow)], now);
        assert!(room.holds(&critical) && !room.holds(&quick.uid));
        assert_eq!(room.next_deadline(), Some(now + Duration::from_secs(10)));
        let ended = |uid: &PodUid| *uid == PodUid::from("quick");
        let settled = room.settle(ended, now);
        assert_eq!(settled, Settled { ended_for: vec!["cpu".to_owned()], ..Settled::default() });
        assert_eq!(room.next_deadline(), Some(now + Duration::from_secs(45)));
        let settled = room.settle(|_| false, now + Duration::from_secs(45));
        assert_eq!((settled.begin, settled.late), (vec![critical.clone()], vec![Arc::clone(&slow)]));
        assert_eq!(room.next_deadline(), None);
        room.wait(&critical, "cpu".to_owned(), vec![slow], now);
        assert_eq!(room.settle(|_| true, now).begin, std::slice::from_ref(&critical));
        room.wait(&critical, "cpu".to_owned(), vec![quick], now);
        room.forget(&critical);
        assert_eq!(room.next_deadline(), None);
    }
}
