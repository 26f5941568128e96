//! Keys ordered by the instant at which they are due.
//!
//! `tokio_util::time::DelayQueue` does not fit: it identifies entries by handles, so that each user would keep a second
//! map from its keys, it returns entries only through a poll that registers a waker, and it rounds to milliseconds. The
//! users here look at the head without taking it (a due write may have to wait for a free slot), change and remove
//! entries by key, and wait in a `select!` together with other inputs.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

/// A queue that holds each key once. Keys that are due at the same instant leave it in their own order.
#[derive(Clone, Debug)]
pub struct DelayQueue<K> {
    by_due: BTreeSet<(Instant, K)>,
    by_key: HashMap<K, Instant>,
}

impl<K> Default for DelayQueue<K> {
    fn default() -> Self {
        Self { by_due: BTreeSet::new(), by_key: HashMap::new() }
    }
}

impl<K: Clone + Hash + Ord> DelayQueue<K> {
    /// Adds a key, or moves it. Returns when it was due before.
    pub fn set(&mut self, key: K, due: Instant) -> Option<Instant> {
        let before = self.remove(&key);
        self.by_key.insert(key.clone(), due);
        self.by_due.insert((due, key));
        before
    }

    /// Adds a key; one that is in the queue keeps the earlier of both instants.
    pub fn set_earliest(&mut self, key: K, due: Instant) {
        if self.due(&key).is_none_or(|before| due < before) {
            self.set(key, due);
        }
    }

    /// Removes a key. Returns when it was due.
    pub fn remove(&mut self, key: &K) -> Option<Instant> {
        let due = self.by_key.remove(key)?;
        self.by_due.remove(&(due, key.clone()));
        Some(due)
    }

    /// Returns when a key is due.
    #[must_use]
    pub fn due(&self, key: &K) -> Option<Instant> {
        self.by_key.get(key).copied()
    }

    /// Returns when the first key is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.by_due.first().map(|(due, _)| *due)
    }

    /// Takes the first key if it is due.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        if self.next_due()? > now {
            return None;
        }
        let (_, key) = self.by_due.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn earliest_instant_of_a_key_wins() {
        let now = Instant::now();
        let mut queue = DelayQueue::default();
        queue.set_earliest("a", now + SECOND * 5);
        queue.set_earliest("a", now + SECOND * 2);
        queue.set_earliest("a", now + SECOND * 9);
        queue.set_earliest("b", now + SECOND * 3);
        assert_eq!(queue.next_due(), Some(now + SECOND * 2));
        assert_eq!(queue.pop_due(now + SECOND), None);
        assert_eq!(queue.pop_due(now + SECOND * 3), Some("a"));
        assert_eq!(queue.pop_due(now + SECOND * 3), Some("b"));
        assert_eq!((queue.pop_due(now + SECOND * 3), queue.next_due()), (None, None));
    }

    #[test]
    fn set_replaces_and_remove_takes_out() {
        let now = Instant::now();
        let mut queue = DelayQueue::default();
        assert_eq!(queue.set("a", now), None);
        assert_eq!(queue.set("a", now + SECOND), Some(now));
        queue.set("b", now + SECOND);
        assert_eq!((queue.due(&"a"), queue.due(&"c")), (Some(now + SECOND), None));
        assert_eq!(queue.pop_due(now), None);
        assert_eq!(queue.remove(&"a"), Some(now + SECOND));
        assert_eq!(queue.remove(&"a"), None);
        assert_eq!(queue.pop_due(now + SECOND), Some("b"));
    }

    proptest! {
        #[test]
        fn keys_leave_once_and_in_the_order_of_their_instants(
            entries in proptest::collection::vec((0u8..10, 0u32..100), 0..50),
        ) {
            let start = Instant::now();
            let mut queue = DelayQueue::default();
            let mut expected: HashMap<u8, u32> = HashMap::new();
            for (key, due) in entries {
                queue.set(key, start + SECOND * due);
                expected.insert(key, due);
            }
            let mut order: Vec<(u32, u8)> = expected.into_iter().map(|(key, due)| (due, key)).collect();
            order.sort_unstable();
            for (due, key) in order {
                let due = start + SECOND * due;
                prop_assert_eq!(queue.next_due(), Some(due));
                prop_assert_eq!(queue.pop_due(due), Some(key));
            }
            prop_assert_eq!(queue.next_due(), None);
        }
    }
}
