//! The ConfigMaps and Secrets of a node without an API server: what its sources delivered last.
//!
//! Sources write their whole set, pods read through the port. The last sets are kept on disk, so that an agent whose
//! URL does not answer at its start still knows them.

mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use model::{ConfigObject, ObjectKey, PodSource};
use ports::objects::{ObjectError, Objects};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub use kept::{SavedObject, keep};

/// How long readers wait at the start for sources that have not spoken.
const PATIENCE: Duration = Duration::from_secs(3);

/// The objects of one source.
type Set = BTreeMap<ObjectKey, Arc<ConfigObject>>;

/// The store.
#[derive(Debug)]
pub struct LocalObjects {
    state: Mutex<State>,
    /// Counts changes; readers of it are told that there is something to keep.
    version: watch::Sender<u64>,
    /// Sources that have not spoken yet.
    silent: watch::Sender<BTreeSet<PodSource>>,
    patience_ends: Instant,
}

#[derive(Debug, Default)]
struct State {
    sources: BTreeMap<PodSource, Set>,
    listeners: Vec<mpsc::UnboundedSender<ObjectKey>>,
}

impl State {
    /// The object of a key; when two sources have one, the file's.
    fn get(&self, key: &ObjectKey) -> Option<&Arc<ConfigObject>> {
        self.sources.values().find_map(|set| set.get(key))
    }
}

impl LocalObjects {
    /// A store for the configured sources.
    #[must_use]
    pub fn new(sources: impl IntoIterator<Item = PodSource>) -> Self {
        Self {
            state: Mutex::default(),
            version: watch::Sender::new(0),
            silent: watch::Sender::new(sources.into_iter().collect()),
            patience_ends: Instant::now() + PATIENCE,
        }
    }

    /// Takes the whole set of a source; whoever listens is told the keys that changed.
    pub fn set(&self, source: PodSource, objects: Vec<Arc<ConfigObject>>) {
        self.replace(source, objects);
        self.silent.send_if_modified(|silent| silent.remove(&source));
    }

    /// Takes what a source delivered to an earlier agent, unless it has spoken since.
    fn restore(&self, source: PodSource, objects: Vec<Arc<ConfigObject>>) {
        if self.silent.borrow().contains(&source) {
            self.replace(source, objects);
        }
    }

    fn replace(&self, source: PodSource, objects: Vec<Arc<ConfigObject>>) {
        let new: Set = objects.into_iter().map(|object| (object.key.clone(), object)).collect();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let old = state.sources.get(&source);
        let keys: BTreeSet<ObjectKey> =
            old.into_iter().flat_map(Set::keys).chain(new.keys()).cloned().collect();
        let before: Vec<_> = keys.iter().map(|key| state.get(key).cloned()).collect();
        state.sources.insert(source, new);
        let changed: Vec<ObjectKey> = keys
            .into_iter()
            .zip(before)
            .filter(|(key, before)| state.get(key) != before.as_ref())
            .map(|(key, _)| key)
            .collect();
        if changed.is_empty() {
            return;
        }
        // A listener that is gone needs no news.
        state.listeners.retain(|listener| changed.iter().all(|key| listener.send(key.clone()).is_ok()));
        drop(state);
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    fn sets(&self) -> BTreeMap<PodSource, Vec<Arc<ConfigObject>>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sources.iter().map(|(source, set)| (*source, set.values().cloned().collect())).collect()
    }
}

#[async_trait]
impl Objects for LocalObjects {
    async fn get(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError> {
        let mut silent = self.silent.subscribe();
        // After the wait the answer is what is known; the sender lives as long as the store.
        let _ = tokio::time::timeout_at(self.patience_ends, silent.wait_for(BTreeSet::is_empty)).await;
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.get(key).cloned().ok_or_else(|| ObjectError::NotFound(key.clone()))
    }

    fn changes(&self) -> BoxStream<'static, ObjectKey> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).listeners.push(sender);
        futures::stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()
    }
}

#[cfg(test)]
mod tests;
