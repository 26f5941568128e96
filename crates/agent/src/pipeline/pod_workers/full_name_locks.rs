use std::collections::{HashMap, VecDeque};

use model::{PodFullName, PodUid};

/// Locks by full name: static pods with the same full name run one after the other, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct FullNameLocks {
    queues: HashMap<PodFullName, NameQueue>,
}

#[derive(Debug)]
struct NameQueue {
    holder: PodUid,
    waiting: VecDeque<PodUid>,
}

impl FullNameLocks {
    /// Returns whether the pod holds the lock of its name; otherwise the pod is queued.
    pub(super) fn acquire(&mut self, name: &PodFullName, uid: &PodUid) -> bool {
        match self.queues.get_mut(name) {
            None => {
                self.queues.insert(name.clone(), NameQueue { holder: uid.clone(), waiting: VecDeque::new() });
                true
            }
            Some(queue) if queue.holder == *uid => true,
            Some(queue) => {
                if !queue.waiting.contains(uid) {
                    queue.waiting.push_back(uid.clone());
                }
                false
            }
        }
    }

    /// Releases the lock, or leaves its queue; returns the pod that holds the lock now, if it changed.
    pub(super) fn release(&mut self, name: &PodFullName, uid: &PodUid) -> Option<PodUid> {
        let queue = self.queues.get_mut(name)?;
        if queue.holder != *uid {
            queue.waiting.retain(|waiting| waiting != uid);
            return None;
        }
        match queue.waiting.pop_front() {
            Some(next) => {
                queue.holder = next.clone();
                Some(next)
            }
            None => {
                self.queues.remove(name);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> PodFullName {
        PodFullName { namespace: "default".into(), name: "a".into() }
    }

    #[test]
    fn grants_the_lock_of_a_name_in_order() {
        let mut locks = FullNameLocks::default();
        assert!(locks.acquire(&name(), &"1".into()));
        assert!(!locks.acquire(&name(), &"2".into()));
        assert!(!locks.acquire(&name(), &"3".into()));
        assert!(locks.acquire(&name(), &"1".into()));
        assert_eq!(locks.release(&name(), &"2".into()), None);
        assert_eq!(locks.release(&name(), &"1".into()), Some("3".into()));
        assert_eq!(locks.release(&name(), &"3".into()), None);
        assert!(locks.acquire(&name(), &"4".into()));
    }
}
