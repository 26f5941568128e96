//! A lock per key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// One operation at a time per key. Callers of the same key are served in the order of their arrival, callers of other keys
/// are not delayed. Keys take memory only while they are locked or waited for.
pub struct KeyedLock<K> {
    locks: Locks<K>,
}

type Locks<K> = Arc<Mutex<HashMap<K, Entry>>>;

/// The lock of a key, with the number of callers that hold it or wait for it.
#[derive(Default)]
struct Entry {
    users: usize,
    lock: Arc<AsyncMutex<()>>,
}

impl<K> Clone for KeyedLock<K> {
    fn clone(&self) -> Self {
        Self { locks: Arc::clone(&self.locks) }
    }
}

impl<K> Default for KeyedLock<K> {
    fn default() -> Self {
        Self { locks: Arc::default() }
    }
}

impl<K: Clone + Eq + Hash> KeyedLock<K> {
    /// Waits until the key is free; `None` if it is still locked after `timeout`.
    pub async fn acquire(&self, key: &K, timeout: Duration) -> Option<KeyedLockGuard<K>> {
        tokio::time::timeout(timeout, self.lock(key)).await.ok()
    }

    async fn lock(&self, key: &K) -> KeyedLockGuard<K> {
        let lock = {
            let mut locks = self.locks.lock();
            let entry = locks.entry(key.clone()).or_default();
            entry.users += 1;
            Arc::clone(&entry.lock)
        };
        // Before the wait: a caller that stops waiting leaves no entry behind.
        let user = User { locks: Arc::clone(&self.locks), key: key.clone() };
        KeyedLockGuard { _locked: lock.lock_owned().await, _user: user }
    }
}

/// A locked key; dropping it unlocks.
pub struct KeyedLockGuard<K: Eq + Hash> {
    // Fields are dropped in this order: the key is unlocked before its entry is removed.
    _locked: OwnedMutexGuard<()>,
    _user: User<K>,
}

struct User<K: Eq + Hash> {
    locks: Locks<K>,
    key: K,
}

impl<K: Eq + Hash> Drop for User<K> {
    fn drop(&mut self) {
        let mut locks = self.locks.lock();
        if let Some(entry) = locks.get_mut(&self.key) {
            entry.users -= 1;
            if entry.users == 0 {
                locks.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn locked_key_does_not_block_other_keys() {
        let locks = KeyedLock::default();
        let held = locks.lock(&"one").await;
        assert!(locks.acquire(&"one", Duration::from_millis(1)).await.is_none());
        assert!(locks.acquire(&"other", Duration::ZERO).await.is_some());
        drop(held);
        assert!(locks.acquire(&"one", Duration::ZERO).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_caller_continues_when_the_key_is_unlocked() {
        let locks = KeyedLock::default();
        let held = locks.lock(&"one").await;
        let waiting = locks.acquire(&"one", Duration::from_secs(60));
        let unlock = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(held);
        };
        let (locked, ()) = tokio::join!(waiting, unlock);
        assert!(locked.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn keys_without_users_take_no_memory() {
        let locks = KeyedLock::default();
        let held = locks.lock(&"one").await;
        assert!(locks.acquire(&"one", Duration::from_millis(1)).await.is_none());
        assert_eq!(locks.locks.lock().len(), 1);
        drop(held);
        assert!(locks.locks.lock().is_empty());
    }
}
