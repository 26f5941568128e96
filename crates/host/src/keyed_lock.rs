//! One operation at a time per key, for operations that may hang.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A lock per key, such as a pod UID or a path. An operation that hangs blocks its key only, and later callers with
/// the same key time out instead of piling up.
#[derive(Debug)]
pub(crate) struct KeyedLock<Key> {
    shared: Arc<Shared<Key>>,
}

#[derive(Debug)]
struct Shared<Key> {
    locked: Mutex<HashSet<Key>>,
    released: Notify,
}

/// Unlocks its key when dropped.
pub(crate) struct KeyedLockGuard<Key: Eq + Hash> {
    shared: Arc<Shared<Key>>,
    key: Key,
}

impl<Key> Clone for KeyedLock<Key> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<Key> Default for KeyedLock<Key> {
    fn default() -> Self {
        Self { shared: Arc::new(Shared { locked: Mutex::default(), released: Notify::new() }) }
    }
}

impl<Key: Clone + Eq + Hash> KeyedLock<Key> {
    /// Waits for the lock of `key`; `None` after `timeout`.
    pub(crate) async fn acquire(&self, key: &Key, timeout: Duration) -> Option<KeyedLockGuard<Key>> {
        tokio::time::timeout(timeout, self.wait(key)).await.ok()
    }

    async fn wait(&self, key: &Key) -> KeyedLockGuard<Key> {
        loop {
            let mut released = std::pin::pin!(self.shared.released.notified());
            released.as_mut().enable();
            if self.shared.locked.lock().insert(key.clone()) {
                return KeyedLockGuard { shared: Arc::clone(&self.shared), key: key.clone() };
            }
            released.await;
        }
    }
}

impl<Key: Eq + Hash> Drop for KeyedLockGuard<Key> {
    fn drop(&mut self) {
        self.shared.locked.lock().remove(&self.key);
        self.shared.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use model::PodUid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn locked_key_does_not_block_other_keys() {
        let locks = KeyedLock::default();
        let (one, other) = (PodUid::from("one"), PodUid::from("other"));
        let held = locks.acquire(&one, Duration::ZERO).await.unwrap();
        assert!(locks.acquire(&one, Duration::from_millis(1)).await.is_none());
        assert!(locks.acquire(&other, Duration::ZERO).await.is_some());
        drop(held);
        assert!(locks.acquire(&one, Duration::ZERO).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn waiter_proceeds_when_guard_is_dropped() {
        let locks = KeyedLock::default();
        let uid = PodUid::from("one");
        let held = locks.acquire(&uid, Duration::ZERO).await.unwrap();
        let mut waiting = std::pin::pin!(locks.acquire(&uid, Duration::from_secs(60)));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(held);
        assert!(waiting.await.is_some());
    }
}
