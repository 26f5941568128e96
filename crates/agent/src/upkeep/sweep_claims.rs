//! Claims on pods that are being swept.
//!
//! A static pod that is removed and added again keeps its UID. The sweep was decided while the pod was not desired, so the sweeper
//! claims the UID and checks again before it acts, and the start of the pod waits until the claim is dropped.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

use model::{Pod, PodUid, WorkerPhase, WorkerView};
use tokio::sync::Notify;

use crate::pipeline::tables::Reader;

#[derive(Clone, Debug, Default)]
pub struct SweepClaims {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    claimed: Mutex<HashSet<PodUid>>,
    released: Notify,
}

impl SweepClaims {
    /// Claims a pod if it may be swept now. The pod does not start before the claim is dropped.
    #[must_use]
    pub fn claim(&self, uid: &PodUid, may_be_swept: impl FnOnce() -> bool) -> Option<SweepClaim> {
        self.shared.claimed.lock().insert(uid.clone());
        let claim = SweepClaim { of: self.clone(), uid: uid.clone() };
        may_be_swept().then_some(claim)
    }

    /// Waits until the pod is not being swept. The caller must have published before that the pod is desired.
    pub async fn wait_until_swept(&self, uid: &PodUid) {
        loop {
            let mut released = std::pin::pin!(self.shared.released.notified());
            released.as_mut().enable();
            if !self.shared.claimed.lock().contains(uid) {
                return;
            }
            released.await;
        }
    }
}

/// Permission to sweep a pod until it is dropped.
#[derive(Debug)]
pub struct SweepClaim {
    of: SweepClaims,
    uid: PodUid,
}

impl Drop for SweepClaim {
    fn drop(&mut self) {
        self.of.shared.claimed.lock().remove(&self.uid);
        self.of.shared.released.notify_waiters();
    }
}

/// The tables that decide whether a pod may be swept.
#[derive(Clone)]
pub struct SweepGuard {
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
}

impl SweepGuard {
    /// Whether the pod is neither desired nor has a worker: all of it may be removed.
    #[must_use]
    pub fn is_orphan(&self, uid: &PodUid) -> bool {
        self.desired.get(uid).is_none() && self.is_over(uid)
    }

    /// Whether the pod has finished: its dead containers and logs may be removed, although it still exists.
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
    async fn start_waits_only_for_its_own_sweep() {
        let sweeping = SweepClaims::default();
        let claim = sweeping.claim(&"u".into(), || true).unwrap();
        sweeping.wait_until_swept(&"other".into()).await;
        let uid = "u".into();
        let mut wait_until_swept = std::pin::pin!(sweeping.wait_until_swept(&uid));
        assert!(tokio::time::timeout(Duration::from_secs(1), wait_until_swept.as_mut()).await.is_err());
        drop(claim);
        wait_until_swept.await;
    }

    #[tokio::test]
    async fn desired_pod_cannot_be_claimed() {
        let sweeping = SweepClaims::default();
        assert!(sweeping.claim(&"u".into(), || false).is_none());
        sweeping.wait_until_swept(&"u".into()).await;
    }
}
