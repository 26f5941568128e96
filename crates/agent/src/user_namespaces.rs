//! Gives pods users of their own: the acting half of `decide::user_namespaces`.
//!
//! A range is recorded on disk before anything uses it, and taken back when nothing of the pod is left.

use std::sync::Arc;

use decide::user_namespaces::{Allocations, read, written};
use model::{IdPool, IdRange, PodUid};
use ports::pod_folders::FileError;
use ports::user_namespaces::UserNamespaceRecords;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinError;

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
    book: Arc<Mutex<Book>>,
}

impl UserNamespaces {
    /// Ranges of a pool, recorded in `records`.
    #[must_use]
    pub fn new(pool: IdPool, records: Arc<dyn UserNamespaceRecords>) -> Self {
        Self { book: Arc::new(Mutex::new(Book { pool, records, given: None })) }
    }

    /// The pod's range, a new one when it has none.
    ///
    /// # Errors
    /// When no range can be given, or it cannot be recorded; nothing may be started then.
    pub async fn range(&self, uid: &PodUid) -> Result<IdRange, RangeError> {
        let book = Arc::clone(&self.book).lock_owned().await;
        if let Some(range) = book.given.as_ref().and_then(|given| given.range_of(uid)) {
            return Ok(range);
        }
        let uid = uid.clone();
        let range = work(book, move |book| book.range(&uid)).await;
        range.map_err(|lost| RangeError::Choose(lost.to_string()))?
    }

    /// Takes a pod's range back; nothing of the pod runs any more.
    pub async fn release(&self, uid: &PodUid) {
        let book = Arc::clone(&self.book).lock_owned().await;
        let pod = uid.clone();
        if let Err(error) = work(book, move |book| book.release(&pod)).await {
            tracing::error!(pod = %uid, %error, "the pod's user namespace was not released");
        }
    }
}

/// Works on the book where waiting for the disk holds up nobody else. The work ends also when nobody waits for it any
/// more, so that the book and the records agree.
async fn work<T: Send + 'static>(
    mut book: OwnedMutexGuard<Book>,
    act: impl FnOnce(&mut Book) -> T + Send + 'static,
) -> Result<T, JoinError> {
    tokio::task::spawn_blocking(move || act(&mut book)).await
}

/// Who was given what.
struct Book {
    pool: IdPool,
    records: Arc<dyn UserNamespaceRecords>,
    /// Read from the records when first needed: most nodes have no such pods.
    given: Option<Allocations>,
}

impl Book {
    fn range(&mut self, uid: &PodUid) -> Result<IdRange, RangeError> {
        let mut allocations = match self.given.take() {
            Some(allocations) => allocations,
            None => self.recorded()?,
        };
        let range = self.give(&mut allocations, uid);
        self.given = Some(allocations);
        range
    }

    fn give(&self, allocations: &mut Allocations, uid: &PodUid) -> Result<IdRange, RangeError> {
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

    fn release(&mut self, uid: &PodUid) {
        if let Err(error) = self.records.remove(uid) {
            tracing::warn!(pod = %uid, %error, source = %error.source, "the pod's user namespace stays recorded");
            return;
        }
        if let Some(allocations) = &mut self.given {
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
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

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

    #[tokio::test]
    async fn a_pod_keeps_its_range_over_restarts_of_the_agent() {
        let records = Arc::new(Memory::default());
        let first = UserNamespaces::new(pool(3), records.clone()).range(&"a".into()).await.unwrap();
        let next = UserNamespaces::new(pool(3), records.clone());
        let other = next.range(&"b".into()).await.unwrap();
        assert_ne!(first, other);
        assert_eq!(next.range(&"a".into()).await.unwrap(), first);
        assert_eq!(records.0.lock().unwrap()[&PodUid::from("a")], written(first));
    }

    #[tokio::test]
    async fn a_released_range_is_given_again_and_one_that_cannot_be_recorded_is_not_used() {
        let given = UserNamespaces::new(pool(1), Arc::new(Memory::default()));
        assert!(matches!(given.range(&"unwritable".into()).await, Err(RangeError::Record(_))));
        let range = given.range(&"a".into()).await.unwrap();
        assert!(matches!(given.range(&"b".into()).await, Err(RangeError::Choose(_))));
        given.release(&"a".into()).await;
        assert_eq!(given.range(&"b".into()).await.unwrap(), range);
    }

    #[tokio::test]
    async fn ranges_of_swept_folders_are_found_free() {
        let records = Arc::new(Memory::default());
        let given = UserNamespaces::new(pool(1), records.clone());
        given.range(&"a".into()).await.unwrap();
        records.0.lock().unwrap().clear();
        given.range(&"b".into()).await.unwrap();
    }

    /// A disk that takes its time: a write ends when the test says so.
    struct Slow(Mutex<mpsc::Receiver<()>>);

    impl UserNamespaceRecords for Slow {
        fn all(&self) -> Result<Vec<(PodUid, String)>, FileError> {
            Ok(Vec::new())
        }

        fn write(&self, _: &PodUid, _: &str) -> Result<(), FileError> {
            self.0.lock().unwrap().recv().unwrap();
            Ok(())
        }

        fn remove(&self, _: &PodUid) -> Result<(), FileError> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_slow_disk_holds_up_nobody_and_a_cut_wait_loses_no_range() {
        let (ends, end) = mpsc::channel();
        let given = UserNamespaces::new(pool(3), Arc::new(Slow(Mutex::new(end))));
        let uid = PodUid::from("a");
        // The one thread of this test is free to notice that the time is over.
        let cut = tokio::time::timeout(Duration::from_millis(50), given.range(&uid)).await;
        assert!(cut.is_err());
        ends.send(()).unwrap();
        ends.send(()).unwrap();
        let other = given.range(&"b".into()).await.unwrap();
        assert_ne!(given.range(&uid).await.unwrap(), other);
    }
}
