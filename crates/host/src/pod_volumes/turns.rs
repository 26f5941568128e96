//! One operation on a pod's volumes at a time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::PodUid;
use tokio::sync::Notify;

/// Pods whose volumes are being worked on. An operation that hangs keeps its pod, and its pod only: others that want
/// the same pod give up after a while instead of piling up.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    taken: Mutex<HashSet<PodUid>>,
    given_back: Notify,
}

/// The right to work on a pod, given back when dropped.
pub(super) struct Turn {
    inner: Arc<Inner>,
    uid: PodUid,
}

impl Turns {
    /// Waits for a pod's turn. `None` if it is still taken after `patience`.
    pub(super) async fn take(&self, uid: &PodUid, patience: Duration) -> Option<Turn> {
        tokio::time::timeout(patience, self.wait(uid)).await.ok()
    }

    async fn wait(&self, uid: &PodUid) -> Turn {
        loop {
            let mut given_back = std::pin::pin!(self.inner.given_back.notified());
            given_back.as_mut().enable();
            if self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone()) {
                return Turn { inner: Arc::clone(&self.inner), uid: uid.clone() };
            }
            given_back.await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.uid);
        self.inner.given_back.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_taken_pod_holds_up_nobody_else() {
        let turns = Turns::default();
        let (one, other) = (PodUid::from("one"), PodUid::from("other"));
        let held = turns.take(&one, Duration::ZERO).await.unwrap();
        assert!(turns.take(&one, Duration::from_millis(1)).await.is_none());
        assert!(turns.take(&other, Duration::ZERO).await.is_some());
        drop(held);
        assert!(turns.take(&one, Duration::ZERO).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_one_goes_on_when_the_first_is_done() {
        let turns = Turns::default();
        let uid = PodUid::from("one");
        let held = turns.take(&uid, Duration::ZERO).await.unwrap();
        let mut waiting = std::pin::pin!(turns.take(&uid, Duration::from_secs(60)));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(held);
        assert!(waiting.await.is_some());
    }
}
