use std::collections::{HashMap, VecDeque};

use model::{PodFullName, PodUid};

/// Locks by full name: static pods with the same full name run one after the other, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct FullNameLocks {
    /// The first pod of a queue holds the lock.
    queues: HashMap<PodFullName, VecDeque<PodUid>>,
}

impl FullNameLocks {
    /// Returns whether the pod holds the lock of its name; otherwise the pod is queued.
    pub(super) fn acquire(&mut self, name: &PodFullName, uid: &PodUid) -> bool {
        let queue = self.queues.entry(name.clone()).or_default();
        if !queue.contains(uid) {
            queue.push_back(uid.clone());
        }
        queue.front() == Some(uid)
    }

    /// Releases the lock, or leaves its queue; returns the pod that holds the lock now, if it changed.
    pub(super) fn release(&mut self, name: &PodFullName, uid: &PodUid) -> Option<PodUid> {
        let queue = self.queues.get_mut(name)?;
        let was_holder = queue.front() == Some(uid);
        queue.retain(|waiting| waiting != uid);
        let holder = queue.front().cloned();
        if holder.is_none() {
            self.queues.remove(name);
        }
        holder.filter(|_| was_holder)
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
