//! Keys that need work.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

/// A queue that coalesces: a key waits once however often it is pushed, and is processed by one task at a time. A key that
/// is pushed while it is processed is queued again when that is done, so that no change is missed.
#[derive(Clone, Debug)]
pub struct WorkQueue<K> {
    order: VecDeque<K>,
    queued: HashSet<K>,
    processing: HashMap<K, Mark>,
}

/// Whether a key was pushed again while it is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Clean,
    Dirty,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        Self { order: VecDeque::new(), queued: HashSet::new(), processing: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// Adds a key at the back, unless it waits already. One that is processed is queued again by [`WorkQueue::done`].
    pub fn push(&mut self, key: K) {
        if let Some(mark) = self.processing.get_mut(&key) {
            *mark = Mark::Dirty;
        } else if self.queued.insert(key.clone()) {
            self.order.push_back(key);
        }
    }

    /// Takes the first key; it is processed until [`WorkQueue::done`] or [`WorkQueue::retry`].
    pub fn pop(&mut self) -> Option<K> {
        let key = self.discard_oldest()?;
        self.processing.insert(key.clone(), Mark::Clean);
        Some(key)
    }

    /// Takes a key from its place in the queue, or without having been queued, and processes it. False if it is processed
    /// already: it is queued again then.
    pub fn begin(&mut self, key: &K) -> bool {
        if let Some(mark) = self.processing.get_mut(key) {
            *mark = Mark::Dirty;
            return false;
        }
        if self.queued.remove(key) {
            self.order.retain(|queued| queued != key);
        }
        self.processing.insert(key.clone(), Mark::Clean);
        true
    }

    /// The work on a key is done.
    pub fn done(&mut self, key: &K) {
        if self.processing.remove(key) == Some(Mark::Dirty) {
            self.push(key.clone());
        }
    }

    /// The work on a key failed: it comes first again, or last if it was pushed meanwhile.
    pub fn retry(&mut self, key: K) {
        if self.processing.remove(&key) == Some(Mark::Dirty) {
            self.push(key);
        } else if self.queued.insert(key.clone()) {
            self.order.push_front(key);
        }
    }

    /// Drops the key that waits longest.
    pub fn discard_oldest(&mut self) -> Option<K> {
        let key = self.order.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }

    /// Number of keys that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no key waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(keys: &[&'static str]) -> WorkQueue<&'static str> {
        let mut queue = WorkQueue::default();
        keys.iter().for_each(|key| queue.push(*key));
        queue
    }

    #[test]
    fn key_waits_once_and_keeps_its_place() {
        let mut queue = queue(&["a", "b", "a", "b"]);
        assert_eq!(queue.len(), 2);
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some("a"), Some("b"), None));
        assert!(queue.is_empty());
    }

    #[test]
    fn key_pushed_while_processed_is_queued_again_once() {
        let mut queue = queue(&["a"]);
        queue.pop();
        queue.push("a");
        queue.push("a");
        assert_eq!(queue.pop(), None, "one task at a time");
        queue.done(&"a");
        assert_eq!((queue.pop(), queue.pop()), (Some("a"), None));
        queue.done(&"a");
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn failed_key_comes_first_unless_it_was_pushed_meanwhile() {
        let mut queue = queue(&["a", "b"]);
        queue.pop();
        queue.retry("a");
        assert_eq!(queue.pop(), Some("a"));
        queue.push("a");
        queue.retry("a");
        assert_eq!((queue.pop(), queue.pop()), (Some("b"), Some("a")));
    }

    #[test]
    fn begin_takes_a_key_out_of_turn() {
        let mut queue = queue(&["a", "b"]);
        assert!(queue.begin(&"b") && queue.begin(&"c"));
        assert!(!queue.begin(&"b"), "it is processed already");
        assert_eq!((queue.pop(), queue.pop()), (Some("a"), None));
        queue.done(&"b");
        queue.done(&"c");
        assert_eq!((queue.pop(), queue.pop()), (Some("b"), None));
    }

    proptest! {
        #[test]
        fn every_push_is_followed_by_a_run(steps in proptest::collection::vec((0u8..4, 0u8..3), 0..200)) {
            let mut queue = WorkQueue::default();
            let mut pending: HashSet<u8> = HashSet::new();
            let mut running: HashSet<u8> = HashSet::new();
            for (key, step) in steps {
                match step {
                    0 => {
                        queue.push(key);
                        pending.insert(key);
                    }
                    1 => if let Some(key) = queue.pop() {
                        prop_assert!(pending.remove(&key), "run without a push");
                        prop_assert!(running.insert(key), "run twice at the same time");
                    },
                    _ => if running.remove(&key) {
                        queue.done(&key);
                    },
                }
            }
            running.iter().for_each(|key| queue.done(key));
            while let Some(key) = queue.pop() {
                prop_assert!(pending.remove(&key));
                queue.done(&key);
            }
            prop_assert!(pending.is_empty(), "missed {pending:?}");
        }
    }
}
