use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

/// Work that several may want at once and that is done once. It goes on while anybody waits for it, and ends with
/// the last one who does.
pub(super) struct SingleFlight<K, V: Clone> {
    running: Mutex<HashMap<K, WeakShared<BoxFuture<'static, V>>>>,
}

impl<K: Eq + Hash, V: Clone> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self { running: Mutex::default() }
    }
}

impl<K: Eq + Hash, V: Clone> SingleFlight<K, V> {
    /// Joins the work under way for a key, or begins it.
    pub(super) fn join(
        &self,
        key: K,
        begin: impl FnOnce() -> BoxFuture<'static, V>,
    ) -> Shared<BoxFuture<'static, V>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, work| work.upgrade().is_some_and(|work| work.peek().is_none()));
        if let Some(work) = running.get(&key).and_then(WeakShared::upgrade) {
            return work;
        }
        let work = begin().shared();
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

    fn work(begun: &Arc<AtomicUsize>) -> BoxFuture<'static, usize> {
        let begun = Arc::clone(begun);
        async move {
            let number = begun.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(10)).await;
            number
        }
        .boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_get_the_same_answer_and_the_next_begins_anew() {
        let (flight, begun) = (SingleFlight::default(), Arc::new(AtomicUsize::new(0)));
        let (a, b) = tokio::join!(flight.join("k", || work(&begun)), flight.join("k", || work(&begun)));
        assert_eq!((a, b), (0, 0));
        assert_eq!(flight.join("k", || work(&begun)).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn work_outlives_the_one_who_began_it() {
        let (flight, begun) = (SingleFlight::default(), Arc::new(AtomicUsize::new(0)));
        let first = flight.join("k", || work(&begun));
        let second = flight.join("k", || work(&begun));
        assert!(tokio::time::timeout(Duration::from_secs(1), first).await.is_err());
        assert_eq!(second.await, 0);
        assert_eq!(begun.load(Ordering::SeqCst), 1);
    }
}
