//! One operation at a time on what may hang: the volumes of a pod, a path.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Things that are being worked on, by their names. An operation that hangs keeps its thing, and that only: others that
/// want the same one give up after a while instead of piling up.
#[derive(Debug)]
pub(crate) struct Turns<Name> {
    inner: Arc<Inner<Name>>,
}

#[derive(Debug)]
struct Inner<Name> {
    taken: Mutex<HashSet<Name>>,
    given_back: Notify,
}

/// The right to work on something, given back when dropped.
pub(crate) struct Turn<Name: Eq + Hash> {
    inner: Arc<Inner<Name>>,
    name: Name,
}

impl<Name> Clone for Turns<Name> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<Name> Default for Turns<Name> {
    fn default() -> Self {
        Self { inner: Arc::new(Inner { taken: Mutex::default(), given_back: Notify::new() }) }
    }
}

impl<Name: Clone + Eq + Hash> Turns<Name> {
    /// Waits for a turn. `None` if it is still taken after `patience`.
    pub(crate) async fn take(&self, name: &Name, patience: Duration) -> Option<Turn<Name>> {
        tokio::time::timeout(patience, self.wait(name)).await.ok()
    }

    async fn wait(&self, name: &Name) -> Turn<Name> {
        loop {
            let mut given_back = std::pin::pin!(self.inner.given_back.notified());
            given_back.as_mut().enable();
            if self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
                return Turn { inner: Arc::clone(&self.inner), name: name.clone() };
            }
            given_back.await;
        }
    }
}

impl<Name: Eq + Hash> Drop for Turn<Name> {
    fn drop(&mut self) {
        self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
        self.inner.given_back.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use model::PodUid;

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
