//! One operation on a pod's volumes at a time.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use model::PodUid;

/// Pods whose volumes are being worked on. An operation that hangs keeps its pod, and its pod only: others that want
/// the same pod give up after a while instead of piling up.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    taken: Mutex<HashSet<PodUid>>,
    given_back: Condvar,
}

/// The right to work on a pod, given back when dropped.
pub(super) struct Turn {
    inner: Arc<Inner>,
    uid: PodUid,
}

impl Turns {
    /// Waits for a pod's turn; for blocking threads. `None` if it is still taken after `patience`.
    pub(super) fn take(&self, uid: &PodUid, patience: Duration) -> Option<Turn> {
        let taken = self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut taken, waited) = self
            .inner
            .given_back
            .wait_timeout_while(taken, patience, |taken| taken.contains(uid))
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        taken.insert(uid.clone());
        Some(Turn { inner: self.inner.clone(), uid: uid.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.uid);
        self.inner.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_pod_holds_up_nobody_else() {
        let turns = Turns::default();
        let (one, other) = (PodUid::from("one"), PodUid::from("other"));
        let held = turns.take(&one, Duration::ZERO).unwrap();
        assert!(turns.take(&one, Duration::from_millis(1)).is_none());
        assert!(turns.take(&other, Duration::ZERO).is_some());
        drop(held);
        assert!(turns.take(&one, Duration::ZERO).is_some());
    }

    #[test]
    fn the_next_one_goes_on_when_the_first_is_done() {
        let turns = Turns::default();
        let uid = PodUid::from("one");
        let held = turns.take(&uid, Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(&uid, Duration::from_secs(60)).is_some());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}
