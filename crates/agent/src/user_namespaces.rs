//! Gives pods users of their own: the acting half of `decide::user_namespaces`.
//!
//! A range is recorded on disk before anything uses it, and taken back when nothing of the pod is left.

use std::sync::{Arc, Mutex, PoisonError};

use decide::user_namespaces::{Allocations, read, written};
use model::{IdPool, IdRange, PodUid};
use ports::pod_folders::FileError;
use ports::user_namespaces::UserNamespaceRecords;

/// Why a pod has no range.
#[derive(Debug, thiserror::Error)]
pub enum RangeError {
    /// None is free, or the recorded one cannot be used.
    #[error("create user namespace: {0}")]
    Choose(String),
    /// The records cannot be read or written.
    #[error("record the pod's user namespace: {0}: {cause}", cause = .0.source)]
    Record(#[source] FileError),
}

/// The ranges of all pods.
pub struct UserNamespaces {
    pool: IdPool,
    records: Arc<dyn UserNamespaceRecords>,
    /// Read from the records when first needed: most nodes have no such pods.
    given: Mutex<Option<Allocations>>,
}

impl UserNamespaces {
    /// Ranges of a pool, recorded in `records`.
    #[must_use]
    pub fn new(pool: IdPool, records: Arc<dyn UserNamespaceRecords>) -> Self {
        Self { pool, records, given: Mutex::new(None) }
    }

    /// The pod's range, a new one when it has none.
    ///
    /// # Errors
    /// When no range can be given, or it cannot be recorded; nothing may be started then.
    pub fn range(&self, uid: &PodUid) -> Result<IdRange, RangeError> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let allocations = match given.take() {
            Some(allocations) => allocations,
            None => self.recorded()?,
        };
        let allocations = given.insert(allocations);
        if let Some(range) = allocations.range_of(uid) {
            return Ok(range);
        }
        let range = match allocations.allocate(uid) {
            Ok(range) => range,
            Err(_) => {
                // Folders that were swept left their ranges in memory.
                *allocations = self.recorded()?;
                allocations.allocate(uid).map_err(RangeError::Choose)?
            }
        };
        if let Err(error) = self.records.write(uid, &written(range)) {
            allocations.release(uid);
            return Err(RangeError::Record(error));
        }
        Ok(range)
    }

    /// Takes a pod's range back; nothing of the pod runs any more.
    pub fn release(&self, uid: &PodUid) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.records.remove(uid) {
            tracing::warn!(pod = %uid, %error, source = %error.source, "the pod's user namespace stays recorded");
            return;
        }
        if let Some(allocations) = given.as_mut() {
            allocations.release(uid);
        }
    }

    /// A record that makes no sense keeps its own pod from running, not the others.
    fn recorded(&self) -> Result<Allocations, RangeError> {
        let mut allocations = Allocations::new(self.pool);
        for (uid, text) in self.records.all().map_err(RangeError::Record)? {
            let taken = read(&text).and_then(|range| match range {
                Some(range) => allocations.record(&uid, range),
                None => Ok(()),
            });
            if let Err(problem) = taken {
                tracing::error!(pod = %uid, %problem, "the pod's recorded user namespace is not used");
            }
        }
        Ok(allocations)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Default)]
    struct Memory(Mutex<BTreeMap<PodUid, String>>);

    impl UserNamespaceRecords for Memory {
        fn all(&self) -> Result<Vec<(PodUid, String)>, FileError> {
            Ok(self.0.lock().unwrap().clone().into_iter().collect())
        }

        fn write(&self, uid: &PodUid, text: &str) -> Result<(), FileError> {
            if uid.as_str() == "unwritable" {
                let source = std::io::Error::other("full");
                return Err(FileError { operation: "write", path: "x".into(), source });
            }
            self.0.lock().unwrap().insert(uid.clone(), text.to_owned());
            Ok(())
        }

        fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
            self.0.lock().unwrap().remove(uid);
            Ok(())
        }
    }

    fn pool(pods: u32) -> IdPool {
        IdPool { first: 65_536, total: pods * 65_536, per_pod: 65_536 }
    }

    #[test]
    fn a_pod_keeps_its_range_over_restarts_of_the_agent() {
        let records = Arc::new(Memory::default());
        let first = UserNamespaces::new(pool(3), records.clone()).range(&"a".into()).unwrap();
        let next = UserNamespaces::new(pool(3), records.clone());
        let other = next.range(&"b".into()).unwrap();
        assert_ne!(first, other);
        assert_eq!(next.range(&"a".into()).unwrap(), first);
        assert_eq!(records.0.lock().unwrap()[&PodUid::from("a")], written(first));
    }

    #[test]
    fn a_released_range_is_given_again_and_one_that_cannot_be_recorded_is_not_used() {
        let given = UserNamespaces::new(pool(1), Arc::new(Memory::default()));
        assert!(matches!(given.range(&"unwritable".into()), Err(RangeError::Record(_))));
        let range = given.range(&"a".into()).unwrap();
        assert!(matches!(given.range(&"b".into()), Err(RangeError::Choose(_))));
        given.release(&"a".into());
        assert_eq!(given.range(&"b".into()).unwrap(), range);
    }

    #[test]
    fn ranges_of_swept_folders_are_found_free() {
        let records = Arc::new(Memory::default());
        let given = UserNamespaces::new(pool(1), records.clone());
        given.range(&"a".into()).unwrap();
        records.0.lock().unwrap().clear();
        given.range(&"b".into()).unwrap();
    }
}
