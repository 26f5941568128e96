//! Concurrent callers of the same operation share one result.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

/// The work continues while at least one caller waits for it, and is cancelled with the last one.
pub(super) struct SingleFlight<K, V: Clone> {
    running: Mutex<HashMap<K, WeakShared<BoxFuture<'static, V>>>>,
}

impl<K: Eq + Hash, V: Clone> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self { running: Mutex::default() }
    }
}

impl<K: Eq + Hash, V: Clone> SingleFlight<K, V> {
    /// Joins the running work of a key, or starts it.
    pub(super) fn join(
        &self,
        key: K,
        start: impl FnOnce() -> BoxFuture<'static, V>,
    ) -> Shared<BoxFuture<'static, V>> {
        let mut running = self.running.lock();
        running.retain(|_, work| work.upgrade().is_some_and(|work| work.peek().is_none()));
        if let Some(work) = running.get(&key).and_then(WeakShared::upgrade) {
            return work;
        }
        let work = start().shared();
        if let Some(weak) = work.downgrade() {
            running.insert(key, weak);
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn work(started: &Arc<AtomicUsize>) -> BoxFuture<'static, usize> {
        let started = Arc::clone(started);
        async move {
            let number = started.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(10)).await;
            number
        }
        .boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_result_and_next_call_starts_again() {
        let (flight, started) = (SingleFlight::default(), Arc::new(AtomicUsize::new(0)));
        let (a, b) = tokio::join!(flight.join("k", || work(&started)), flight.join("k", || work(&started)));
        assert_eq!((a, b), (0, 0));
        assert_eq!(flight.join("k", || work(&started)).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_continues_after_first_caller_is_dropped() {
        let (flight, started) = (SingleFlight::default(), Arc::new(AtomicUsize::new(0)));
        let first = flight.join("k", || work(&started));
        let second = flight.join("k", || work(&started));
        assert!(tokio::time::timeout(Duration::from_secs(1), first).await.is_err());
        assert_eq!(second.await, 0);
        assert_eq!(started.load(Ordering::SeqCst), 1);
    }
}
