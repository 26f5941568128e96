//! Which pods are being swept away right now.
//!
//! A static pod that is removed and comes back has its old UID. The sweep was decided when nobody wanted the pod; whoever
//! carries it out claims the UID first and looks again, and whoever starts the pod waits until the claim is gone: one of
//! the two sees the other.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Pod, PodUid, WorkerPhase, WorkerView};
use tokio::sync::Notify;

use crate::published::Reader;

/// The pods that are being swept.
#[derive(Clone, Debug, Default)]
pub struct Sweeping {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    claimed: Mutex<HashSet<PodUid>>,
    released: Notify,
}

impl Sweeping {
    /// Claims a pod, if it may be swept now. The pod does not start before the claim is dropped.
    #[must_use]
    pub fn claim(&self, uid: &PodUid, may_be_swept: impl FnOnce() -> bool) -> Option<Claim> {
        self.claimed().insert(uid.clone());
        let claim = Claim { of: self.clone(), uid: uid.clone() };
        may_be_swept().then_some(claim)
    }

    /// Waits until nobody sweeps this pod. Whoever calls has made known before that the pod is wanted.
    pub async fn over(&self, uid: &PodUid) {
        loop {
            let mut released = std::pin::pin!(self.shared.released.notified());
            released.as_mut().enable();
            if !self.claimed().contains(uid) {
                return;
            }
            released.await;
        }
    }

    fn claimed(&self) -> MutexGuard<'_, HashSet<PodUid>> {
        self.shared.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to sweep a pod, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    of: Sweeping,
    uid: PodUid,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.of.claimed().remove(&self.uid);
        self.of.shared.released.notify_waiters();
    }
}

/// What says whether a pod may be swept.
#[derive(Clone)]
pub struct Wanted {
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far workers are.
    pub workers: Reader<WorkerView>,
}

impl Wanted {
    /// Whether nobody wants the pod and nobody works on it: all of it may go.
    #[must_use]
    pub fn by_nobody(&self, uid: &PodUid) -> bool {
        self.desired.get(uid).is_none() && self.is_over(uid)
    }

    /// Whether nothing of the pod will run again: its dead containers and logs may go, though its object is still there.
    #[must_use]
    pub fn is_over(&self, uid: &PodUid) -> bool {
        match self.workers.get(uid) {
            Some(worker) => worker.phase == WorkerPhase::Finished && !worker.restart_requested,
            None => self.desired.get(uid).is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pod_waits_for_its_own_sweep_alone() {
        let sweeping = Sweeping::default();
        let claim = sweeping.claim(&"u".into(), || true).unwrap();
        sweeping.over(&"other".into()).await;
        let uid = "u".into();
        let mut over = std::pin::pin!(sweeping.over(&uid));
        assert!(tokio::time::timeout(Duration::from_secs(1), over.as_mut()).await.is_err());
        drop(claim);
        over.await;
    }

    #[tokio::test]
    async fn a_pod_that_is_wanted_again_is_not_claimed() {
        let sweeping = Sweeping::default();
        assert!(sweeping.claim(&"u".into(), || false).is_none());
        sweeping.over(&"u".into()).await;
    }
}
