//! Tables with one writer and many readers.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use model::PodUid;
use tokio::sync::{mpsc, watch};

type Rows<V> = Arc<RwLock<HashMap<PodUid, Arc<V>>>>;

/// The writing end; there is one.
#[derive(Debug)]
pub struct Writer<V> {
    rows: Rows<V>,
    listeners: Vec<mpsc::UnboundedSender<PodUid>>,
    changes: watch::Sender<u64>,
}

/// The reading end.
#[derive(Debug)]
pub struct Reader<V> {
    rows: Rows<V>,
    changes: watch::Receiver<u64>,
}

impl<V> Clone for Reader<V> {
    fn clone(&self) -> Self {
        Self { rows: Arc::clone(&self.rows), changes: self.changes.clone() }
    }
}

/// A new table. Every listener is told the UID of each row that changes.
#[must_use]
pub fn table<V>(listeners: Vec<mpsc::UnboundedSender<PodUid>>) -> (Writer<V>, Reader<V>) {
    let rows: Rows<V> = Rows::default();
    let (changes, changed) = watch::channel(0);
    (Writer { rows: Arc::clone(&rows), listeners, changes }, Reader { rows, changes: changed })
}

impl<V> Writer<V> {
    /// Sets a row.
    pub fn set(&self, uid: &PodUid, value: Arc<V>) {
        self.rows.write().unwrap_or_else(PoisonError::into_inner).insert(uid.clone(), value);
        self.tell(uid);
    }

    /// Drops a row.
    pub fn remove(&self, uid: &PodUid) {
        let removed = self.rows.write().unwrap_or_else(PoisonError::into_inner).remove(uid);
        if removed.is_some() {
            self.tell(uid);
        }
    }

    /// A reading end.
    #[must_use]
    pub fn reader(&self) -> Reader<V> {
        Reader { rows: Arc::clone(&self.rows), changes: self.changes.subscribe() }
    }

    fn tell(&self, uid: &PodUid) {
        for listener in &self.listeners {
            // A listener that is gone needs no news.
            let _ = listener.send(uid.clone());
        }
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl<V> Reader<V> {
    /// One row.
    #[must_use]
    pub fn get(&self, uid: &PodUid) -> Option<Arc<V>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// All rows, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<V>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Tells that some row changed, for those who come and go and then look at all rows.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Another number after each change.
    #[must_use]
    pub fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
