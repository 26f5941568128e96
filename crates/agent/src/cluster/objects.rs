//! ConfigMaps and Secrets of a node without an API server, as its sources last delivered them.
//!
//! Each source replaces its complete set; pods read through the port. The sets are saved in a checkpoint, so that they are
//! available when the agent starts while the URL of a source does not respond.

mod checkpoint;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use model::{ConfigObject, ObjectKey, PodSource};
use ports::served::objects::{ObjectError, Objects};
use timing::{KeySender, key_channel};
use tokio::sync::watch;
use tokio::time::Instant;

pub use checkpoint::persist;

/// How long readers wait after the start for sources that have not delivered yet.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(3);

type SourceObjects = BTreeMap<ObjectKey, Arc<ConfigObject>>;

#[derive(Debug)]
pub struct LocalObjects {
    state: Mutex<State>,
    /// Incremented by every change; wakes [`persist`].
    version: watch::Sender<u64>,
    /// Sources that have not delivered yet.
    pending: watch::Sender<BTreeSet<PodSource>>,
    wait_deadline: Instant,
}

#[derive(Debug, Default)]
struct State {
    sources: BTreeMap<PodSource, SourceObjects>,
    listeners: Vec<KeySender<ObjectKey>>,
}

impl State {
    /// If two sources have the object, the file source wins.
    fn get(&self, key: &ObjectKey) -> Option<&Arc<ConfigObject>> {
        self.sources.values().find_map(|set| set.get(key))
    }
}

impl LocalObjects {
    #[must_use]
    pub fn new(sources: impl IntoIterator<Item = PodSource>) -> Self {
        Self {
            state: Mutex::default(),
            version: watch::Sender::new(0),
            pending: watch::Sender::new(sources.into_iter().collect()),
            wait_deadline: Instant::now() + SOURCES_TIMEOUT,
        }
    }

    /// Replaces all objects of a source and sends the keys that changed to the listeners.
    pub fn set(&self, source: PodSource, objects: Vec<Arc<ConfigObject>>) {
        self.replace(source, objects);
        self.pending.send_if_modified(|pending| pending.remove(&source));
    }

    /// Sets the objects that a source delivered to the previous agent, unless it has delivered again.
    fn restore(&self, source: PodSource, objects: Vec<Arc<ConfigObject>>) {
        if self.pending.borrow().contains(&source) {
            self.replace(source, objects);
        }
    }

    fn replace(&self, source: PodSource, objects: Vec<Arc<ConfigObject>>) {
        let new: SourceObjects = objects.into_iter().map(|object| (object.key.clone(), object)).collect();
        let mut state = self.state.lock();
        let old = state.sources.get(&source);
        let keys: BTreeSet<ObjectKey> =
            old.into_iter().flat_map(SourceObjects::keys).chain(new.keys()).cloned().collect();
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
        // Removes listeners whose receiver was dropped.
        state.listeners.retain(|listener| changed.iter().all(|key| listener.send(key.clone())));
        drop(state);
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    fn sets(&self) -> BTreeMap<PodSource, Vec<Arc<ConfigObject>>> {
        let state = self.state.lock();
        state.sources.iter().map(|(source, set)| (*source, set.values().cloned().collect())).collect()
    }
}

#[async_trait]
impl Objects for LocalObjects {
    async fn get(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError> {
        let mut pending = self.pending.subscribe();
        // After the timeout the current state counts. The sender lives as long as the store.
        let _ = tokio::time::timeout_at(self.wait_deadline, pending.wait_for(BTreeSet::is_empty)).await;
        let state = self.state.lock();
        state.get(key).cloned().ok_or_else(|| ObjectError::NotFound(key.clone()))
    }

    fn changes(&self) -> BoxStream<'static, ObjectKey> {
        let (sender, receiver) = key_channel();
        self.state.lock().listeners.push(sender);
        receiver.into_stream().boxed()
    }
}

#[cfg(test)]
mod tests;
