use std::collections::{BTreeSet, HashMap};

use model::PodUid;
use tokio::time::Instant;

/// Pods by the time they are due; each pod stands in it once, with its earliest time.
#[derive(Debug, Default)]
pub(super) struct DueQueue {
    by_time: BTreeSet<(Instant, PodUid)>,
    by_pod: HashMap<PodUid, Instant>,
}

impl DueQueue {
    pub(super) fn push(&mut self, uid: PodUid, at: Instant) {
        if let Some(before) = self.by_pod.get(&uid) {
            if *before <= at {
                return;
            }
            self.by_time.remove(&(*before, uid.clone()));
        }
        self.by_pod.insert(uid.clone(), at);
        self.by_time.insert((at, uid));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Vec<PodUid> {
        let mut due = Vec::new();
        while let Some((at, uid)) = self.by_time.pop_first() {
            if at > now {
                self.by_time.insert((at, uid));
                break;
            }
            self.by_pod.remove(&uid);
            due.push(uid);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pods_come_out_once_at_their_earliest_time() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut queue = DueQueue::default();
        queue.push("a".into(), now + second * 5);
        queue.push("a".into(), now + second * 2);
        queue.push("a".into(), now + second * 9);
        queue.push("b".into(), now + second * 3);
        assert_eq!(queue.next(), Some(now + second * 2));
        assert!(queue.pop_due(now + second).is_empty());
        assert_eq!(queue.pop_due(now + second * 3), ["a".into(), "b".into()]);
        assert_eq!(queue.next(), None);
    }
}
