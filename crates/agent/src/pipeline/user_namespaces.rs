//! Allocates ID ranges for the user namespaces of pods, with `decide::runtime_spec::user_namespaces`.
//!
//! A range is recorded on disk before it is used, and released when nothing of the pod runs any more.

use std::sync::Arc;

use decide::runtime_spec::user_namespaces::{IdRangeAllocations, format_mappings, parse_mappings};
use model::{IdPool, IdRange, PodUid};
use ports::host::pod_folders::FileError;
use ports::host::user_namespaces::UserNamespaceRecords;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinError;

#[derive(Debug, thiserror::Error)]
pub enum RangeError {
    /// No range is free, or the recorded one is invalid.
    #[error("create user namespace: {0}")]
    Allocate(String),
    #[error("record the pod's user namespace: {0}: {cause}", cause = .0.source)]
    Record(#[source] FileError),
}

pub struct UserNamespaces {
    table: Arc<Mutex<RangeTable>>,
}

impl UserNamespaces {
    #[must_use]
    pub fn new(pool: IdPool, records: Arc<dyn UserNamespaceRecords>) -> Self {
        Self { table: Arc::new(Mutex::new(RangeTable { pool, records, ranges: None })) }
    }

    /// The pod's range; allocates one if it has none.
    ///
    /// # Errors
    /// When no range can be allocated or recorded. The pod must not be started then.
    pub async fn range(&self, uid: &PodUid) -> Result<IdRange, RangeError> {
        let table = Arc::clone(&self.table).lock_owned().await;
        if let Some(range) = table.ranges.as_ref().and_then(|ranges| ranges.range_of(uid)) {
            return Ok(range);
        }
        let uid = uid.clone();
        let range = run_blocking(table, move |table| table.range(&uid)).await;
        range.map_err(|error| RangeError::Allocate(error.to_string()))?
    }

    /// Releases the range of a pod. Nothing of the pod may run any more.
    pub async fn release(&self, uid: &PodUid) {
        let table = Arc::clone(&self.table).lock_owned().await;
        let pod = uid.clone();
        if let Err(error) = run_blocking(table, move |table| table.release(&pod)).await {
            tracing::error!(pod = %uid, %error, "failed to release the pod's user namespace");
        }
    }
}

/// Runs disk operations on a blocking thread. They complete even if the caller stops waiting, so that the table and the
/// records agree.
async fn run_blocking<T: Send + 'static>(
    mut table: OwnedMutexGuard<RangeTable>,
    act: impl FnOnce(&mut RangeTable) -> T + Send + 'static,
) -> Result<T, JoinError> {
    tokio::task::spawn_blocking(move || act(&mut table)).await
}

/// The allocated ranges.
struct RangeTable {
    pool: IdPool,
    records: Arc<dyn UserNamespaceRecords>,
    /// Loaded from the records on first use: most nodes have no such pods.
    ranges: Option<IdRangeAllocations>,
}

impl RangeTable {
    fn range(&mut self, uid: &PodUid) -> Result<IdRange, RangeError> {
        let mut allocations = match self.ranges.take() {
            Some(allocations) => allocations,
            None => self.load_records()?,
        };
        let range = self.allocate(&mut allocations, uid);
        self.ranges = Some(allocations);
        range
    }

    fn allocate(&self, allocations: &mut IdRangeAllocations, uid: &PodUid) -> Result<IdRange, RangeError> {
        if let Some(range) = allocations.range_of(uid) {
            return Ok(range);
        }
        let range = match allocations.allocate(uid) {
            Ok(range) => range,
            Err(_) => {
                // The table may have stale ranges of pod folders that were swept.
                *allocations = self.load_records()?;
                allocations.allocate(uid).map_err(RangeError::Allocate)?
            }
        };
        if let Err(error) = self.records.write(uid, &format_mappings(range)) {
            allocations.release(uid);
            return Err(RangeError::Record(error));
        }
        Ok(range)
    }

    fn release(&mut self, uid: &PodUid) {
        if let Err(error) = self.records.remove(uid) {
            tracing::warn!(pod = %uid, %error, source = %error.source, "failed to remove the record of the pod's user namespace");
            return;
        }
        if let Some(allocations) = &mut self.ranges {
            allocations.release(uid);
        }
    }

    /// Skips invalid records, which keep only their own pod from running.
    fn load_records(&self) -> Result<IdRangeAllocations, RangeError> {
        let mut allocations = IdRangeAllocations::new(self.pool);
        for (uid, text) in self.records.all().map_err(RangeError::Record)? {
            let taken = parse_mappings(&text).and_then(|range| match range {
                Some(range) => allocations.record(&uid, range),
                None => Ok(()),
            });
            if let Err(problem) = taken {
                tracing::error!(pod = %uid, %problem, "ignoring invalid record of the pod's user namespace");
            }
        }
        Ok(allocations)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::collections::BTreeMap;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct InMemoryRecords(Mutex<BTreeMap<PodUid, String>>);

    impl UserNamespaceRecords for InMemoryRecords {
        fn all(&self) -> Result<Vec<(PodUid, String)>, FileError> {
            Ok(self.0.lock().clone().into_iter().collect())
        }

        fn write(&self, uid: &PodUid, text: &str) -> Result<(), FileError> {
            if uid.as_str() == "unwritable" {
                let source = std::io::Error::other("full");
                return Err(FileError { operation: "write", path: "x".into(), source });
            }
            self.0.lock().insert(uid.clone(), text.to_owned());
            Ok(())
        }

        fn remove(&self, uid: &PodUid) -> Result<(), FileError> {
            self.0.lock().remove(uid);
            Ok(())
        }
    }

    fn pool(pods: u32) -> IdPool {
        IdPool { first: 65_536, total: pods * 65_536, per_pod: 65_536 }
    }

    #[tokio::test]
    async fn pod_keeps_its_range_across_agent_restarts() {
        let records = Arc::new(InMemoryRecords::default());
        let first = UserNamespaces::new(pool(3), records.clone()).range(&"a".into()).await.unwrap();
        let next = UserNamespaces::new(pool(3), records.clone());
        let other = next.range(&"b".into()).await.unwrap();
        assert_ne!(first, other);
        assert_eq!(next.range(&"a".into()).await.unwrap(), first);
        assert_eq!(records.0.lock()[&PodUid::from("a")], format_mappings(first));
    }

    #[tokio::test]
    async fn reuses_released_range_and_rejects_unrecordable_one() {
        let ranges = UserNamespaces::new(pool(1), Arc::new(InMemoryRecords::default()));
        assert!(matches!(ranges.range(&"unwritable".into()).await, Err(RangeError::Record(_))));
        let range = ranges.range(&"a".into()).await.unwrap();
        assert!(matches!(ranges.range(&"b".into()).await, Err(RangeError::Allocate(_))));
        ranges.release(&"a".into()).await;
        assert_eq!(ranges.range(&"b".into()).await.unwrap(), range);
    }

    #[tokio::test]
    async fn reuses_range_whose_record_was_swept() {
        let records = Arc::new(InMemoryRecords::default());
        let ranges = UserNamespaces::new(pool(1), records.clone());
        ranges.range(&"a".into()).await.unwrap();
        records.0.lock().clear();
        ranges.range(&"b".into()).await.unwrap();
    }

    /// Records on a slow disk: a write completes when the test sends a message.
    struct SlowRecords(Mutex<mpsc::Receiver<()>>);

    impl UserNamespaceRecords for SlowRecords {
        fn all(&self) -> Result<Vec<(PodUid, String)>, FileError> {
            Ok(Vec::new())
        }

        fn write(&self, _: &PodUid, _: &str) -> Result<(), FileError> {
            self.0.lock().recv().unwrap();
            Ok(())
        }

        fn remove(&self, _: &PodUid) -> Result<(), FileError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn slow_disk_does_not_block_the_runtime_and_cancelled_request_keeps_its_range() {
        let (ends, end) = mpsc::channel();
        let ranges = UserNamespaces::new(pool(3), Arc::new(SlowRecords(Mutex::new(end))));
        let uid = PodUid::from("a");
        // The only thread of this test is not blocked, so the timeout fires.
        let cut = tokio::time::timeout(Duration::from_millis(50), ranges.range(&uid)).await;
        assert!(cut.is_err());
        ends.send(()).unwrap();
        ends.send(()).unwrap();
        let other = ranges.range(&"b".into()).await.unwrap();
        assert_ne!(ranges.range(&uid).await.unwrap(), other);
    }
}
