//! Published tables: maps by pod UID with one writer and many readers.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;

use model::PodUid;
use timing::KeySender;
use tokio::sync::watch;

type Rows<V> = Arc<RwLock<HashMap<PodUid, Arc<V>>>>;

/// The only writer of a table.
#[derive(Debug)]
pub struct Writer<V> {
    rows: Rows<V>,
    listeners: Vec<KeySender<PodUid>>,
    changes: watch::Sender<u64>,
}

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

/// Creates a table. Every listener receives the UID of each row that changes.
#[must_use]
pub fn table<V>(listeners: Vec<KeySender<PodUid>>) -> (Writer<V>, Reader<V>) {
    let rows: Rows<V> = Rows::default();
    let (changes, changed) = watch::channel(0);
    (Writer { rows: Arc::clone(&rows), listeners, changes }, Reader { rows, changes: changed })
}

impl<V> Writer<V> {
    pub fn set(&self, uid: &PodUid, value: Arc<V>) {
        self.rows.write().insert(uid.clone(), value);
        self.notify(uid);
    }

    pub fn remove(&self, uid: &PodUid) {
        let removed = self.rows.write().remove(uid);
        if removed.is_some() {
            self.notify(uid);
        }
    }

    #[must_use]
    pub fn reader(&self) -> Reader<V> {
        Reader { rows: Arc::clone(&self.rows), changes: self.changes.subscribe() }
    }

    fn notify(&self, uid: &PodUid) {
        for listener in &self.listeners {
            // Fails only when the listening stage has ended.
            listener.send(uid.clone());
        }
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl<V> Reader<V> {
    #[must_use]
    pub fn get(&self, uid: &PodUid) -> Option<Arc<V>> {
        self.rows.read().get(uid).cloned()
    }

    /// All rows, in no particular order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<V>> {
        self.rows.read().values().cloned().collect()
    }

    /// Signals every change of any row, for readers that then read all rows.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// A number that differs after each change.
    #[must_use]
    pub fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.read().len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
