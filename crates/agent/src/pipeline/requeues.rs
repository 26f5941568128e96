//! Requests for the next sync of a pod, as a set by pod: the sync loop does not read them while the runtime is away, and
//! meanwhile they must not take more memory than one entry per pod.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::PodUid;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

#[must_use]
pub fn requeues() -> (RequeueSender, RequeueReceiver) {
    let shared = Arc::<Shared>::default();
    (RequeueSender(Arc::clone(&shared)), RequeueReceiver(shared))
}

#[derive(Debug, Default)]
struct Shared {
    /// When each pod is due, at the earliest of its requests.
    due: Mutex<HashMap<PodUid, Instant>>,
    added: Notify,
}

#[derive(Clone, Debug)]
pub struct RequeueSender(Arc<Shared>);

impl RequeueSender {
    /// Requests a sync of the pod after `delay`.
    pub fn requeue(&self, uid: &PodUid, delay: Duration) {
        let at = Instant::now() + delay;
        self.0.due.lock().entry(uid.clone()).and_modify(|due| *due = at.min(*due)).or_insert(at);
        self.0.added.notify_one();
    }
}

#[derive(Debug)]
pub struct RequeueReceiver(Arc<Shared>);

impl RequeueReceiver {
    /// Waits for requests and takes all of them. Cancel safe.
    pub async fn recv(&mut self) -> HashMap<PodUid, Instant> {
        loop {
            let due = std::mem::take(&mut *self.0.due.lock());
            if !due.is_empty() {
                return due;
            }
            self.0.added.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unread_requests_take_one_entry_per_pod() {
        let (sender, mut receiver) = requeues();
        let started = Instant::now();
        for delay in [5, 3, 9].repeat(1000) {
            for uid in ["a", "b"] {
                sender.requeue(&uid.into(), Duration::from_secs(delay));
            }
        }
        let due = receiver.recv().await;
        assert_eq!(due.len(), 2);
        assert_eq!(due["a"], started + Duration::from_secs(3));
        assert!(receiver.recv().now_or_never().is_none());
        sender.requeue(&"c".into(), Duration::ZERO);
        assert_eq!(receiver.recv().await.len(), 1);
    }
}
