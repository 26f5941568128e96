use std::collections::{HashMap, VecDeque};

use model::{PodFullName, PodUid};

/// Which static pod may run under a name: pods of one full name run one after the other, in order.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: HashMap<PodFullName, Queue>,
}

#[derive(Debug)]
struct Queue {
    holder: PodUid,
    waiting: VecDeque<PodUid>,
}

impl Names {
    /// Whether the pod holds its name now; if another one does, the pod waits its turn.
    pub(super) fn take(&mut self, name: &PodFullName, uid: &PodUid) -> bool {
        match self.names.get_mut(name) {
            None => {
                self.names.insert(name.clone(), Queue { holder: uid.clone(), waiting: VecDeque::new() });
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

    /// Gives the name up, or the place in its queue; returns the pod whose turn it is now.
    pub(super) fn release(&mut self, name: &PodFullName, uid: &PodUid) -> Option<PodUid> {
        let queue = self.names.get_mut(name)?;
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
                self.names.remove(name);
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
    fn pods_of_one_name_take_turns() {
        let mut names = Names::default();
        assert!(names.take(&name(), &"1".into()));
        assert!(!names.take(&name(), &"2".into()));
        assert!(!names.take(&name(), &"3".into()));
        assert!(names.take(&name(), &"1".into()));
        assert_eq!(names.release(&name(), &"2".into()), None);
        assert_eq!(names.release(&name(), &"1".into()), Some("3".into()));
        assert_eq!(names.release(&name(), &"3".into()), None);
        assert!(names.take(&name(), &"4".into()));
    }
}
