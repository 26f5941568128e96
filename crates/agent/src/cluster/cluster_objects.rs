//! ConfigMaps and Secrets of a node with an API server: the objects that its pods refer to, in their last known state.
//!
//! A pod refers to its objects from the time it is desired until its worker is finished ([`run`]). Pods that use the same
//! object share one watch. A read of an object without a reference starts the watch early, because a pod may sync before
//! [`run`] has registered its references; the entry is dropped again if no reference follows. So the number of entries is
//! bounded by the references of pods.
//!
//! While the server is unreachable, the last known state is used. [`ClusterObjects::export`] and
//! [`ClusterObjects::seed`] transfer it to the next agent.

mod entries;
mod watches;

use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use model::{ConfigObject, ObjectKey};
use ports::api::objects::ApiObjects;
use ports::api::{ApiError, ApiErrorKind};
use ports::served::objects::{ObjectError, Objects};
use timing::{KeyReceiver, KeySender, key_channel};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::node::node_view::NodeView;
use entries::{Entries, ObjectState};
pub use watches::{ClusterObjectsDeps, run};

/// How long a reader waits for the first state of an object.
const FIRST_READ_TIMEOUT: Duration = Duration::from_secs(1);

/// `configMapAndSecretChangeDetectionStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeDetectionStrategy {
    /// Each object in use is watched.
    Watch,
    /// An object is read again when its cached state is older than this, or when another pod starts to use it. The TTL
    /// annotation of the Node takes precedence over the duration.
    Cache(Duration),
    /// Every use reads the object.
    Get,
}

pub struct ClusterObjects {
    api: Arc<dyn ApiObjects>,
    strategy: ChangeDetectionStrategy,
    entries: Mutex<Entries>,
    /// Objects whose watch is to be started.
    watch_requests: KeySender<ObjectKey>,
    node: OnceLock<watch::Receiver<NodeView>>,
}

impl ClusterObjects {
    /// Returns the store and the requests for watches, which [`run`] handles.
    #[must_use]
    pub fn new(
        api: Arc<dyn ApiObjects>,
        strategy: ChangeDetectionStrategy,
    ) -> (Arc<Self>, KeyReceiver<ObjectKey>) {
        let (watch_requests, receiver) = key_channel();
        let objects =
            Self { api, strategy, entries: Mutex::default(), watch_requests, node: OnceLock::new() };
        (Arc::new(objects), receiver)
    }

    /// Lets the TTL annotation of the Node set the age limit of cached objects.
    pub fn set_node_view(&self, node: watch::Receiver<NodeView>) {
        // Only the first call has an effect.
        let _ = self.node.set(node);
    }

    /// Age limit of objects that are not watched.
    fn max_age(&self, default: Duration) -> Duration {
        let annotated = self.node.get().and_then(|node| node.borrow().object_ttl());
        annotated.unwrap_or(default)
    }

    /// All objects, for the offline cache. They may be secret.
    #[must_use]
    pub fn export(&self) -> Vec<Arc<ConfigObject>> {
        self.entries.lock().export()
    }

    /// Sets the objects of the previous agent. They are used only while the server is unreachable, and never replace a
    /// state that the server reported.
    pub fn seed(&self, objects: Vec<Arc<ConfigObject>>) {
        self.entries.lock().seed(objects);
    }

    /// Drops the seeded objects that the server has not confirmed.
    pub fn drop_seeds(&self) {
        self.entries.lock().seed(Vec::new());
    }

    /// Requests a watch of a new object; the strategies without watches read objects when they are used.
    fn request_watch(&self, key: &ObjectKey) {
        match self.strategy {
            // Fails only while the agent stops.
            ChangeDetectionStrategy::Watch => drop(self.watch_requests.send(key.clone())),
            ChangeDetectionStrategy::Cache(_) | ChangeDetectionStrategy::Get => {}
        }
    }

    /// The state that the object's watch reported.
    async fn read_watched(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError> {
        let (mut states, is_new) = self.entries.lock().subscribe(key, Instant::now());
        if is_new {
            self.request_watch(key);
        }
        let seed = self.entries.lock().seed_of(key);
        let is_settled = |state: &ObjectState| match state {
            ObjectState::Object(_) | ObjectState::Missing => true,
            ObjectState::Failed(error) => seed.is_some() && error.is_transient(),
            ObjectState::Unknown => false,
        };
        // After the timeout the current state counts. An entry that is dropped meanwhile stays unknown.
        let _ = tokio::time::timeout(FIRST_READ_TIMEOUT, states.wait_for(is_settled)).await;
        let state = states.borrow().clone();
        if !state.is_reported() {
            self.entries.lock().add_unserved_read(key);
        }
        match (state, seed) {
            (ObjectState::Object(object), _) => Ok(object),
            (ObjectState::Missing, _) => Err(ObjectError::NotFound(key.clone())),
            (ObjectState::Failed(_) | ObjectState::Unknown, Some(seed)) => Ok(seed),
            (ObjectState::Failed(error), None) => Err(sync_failure(key, &error.message)),
            (ObjectState::Unknown, None) => Err(sync_failure(key, "timed out waiting for the condition")),
        }
    }

    /// Reads the object from the server. While the server is unreachable, the last known object is returned.
    async fn read(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError> {
        let read = self.api.get(key).await;
        let mut entries = self.entries.lock();
        match read {
            Ok(object) => {
                let object = Arc::new(object);
                entries.set(key, ObjectState::Object(Arc::clone(&object)), Some(Instant::now()));
                Ok(object)
            }
            Err(ApiError { kind: ApiErrorKind::NotFound, .. }) => {
                entries.set(key, ObjectState::Missing, Some(Instant::now()));
                Err(ObjectError::NotFound(key.clone()))
            }
            Err(error) => match entries.last(key) {
                Some(object) if error.is_transient() => Ok(object),
                Some(_) | None => Err(sync_failure(key, &error.message)),
            },
        }
    }
}

/// Upstream's message for an object without a known state.
fn sync_failure(key: &ObjectKey, cause: &str) -> ObjectError {
    let reason = format!("failed to sync {} cache: {cause}", key.kind.resource());
    ObjectError::Unavailable { key: key.clone(), reason }
}

#[async_trait]
impl Objects for ClusterObjects {
    async fn get(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError> {
        match self.strategy {
            ChangeDetectionStrategy::Watch => self.read_watched(key).await,
            ChangeDetectionStrategy::Get => self.read(key).await,
            ChangeDetectionStrategy::Cache(age) => {
                let fresh = self.entries.lock().fresh(key, Instant::now(), self.max_age(age));
                match fresh {
                    Some(ObjectState::Object(object)) => Ok(object),
                    Some(ObjectState::Missing) => Err(ObjectError::NotFound(key.clone())),
                    Some(ObjectState::Failed(_) | ObjectState::Unknown) | None => self.read(key).await,
                }
            }
        }
    }

    fn changes(&self) -> BoxStream<'static, ObjectKey> {
        let (sender, receiver) = key_channel();
        self.entries.lock().listen(sender);
        receiver.into_stream().boxed()
    }
}

#[cfg(test)]
mod tests;
