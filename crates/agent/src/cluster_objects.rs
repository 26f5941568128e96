//! The ConfigMaps and Secrets of a node with an API server: those that its pods refer to, as the server told last.
//!
//! A pod claims its objects when it is wanted and lets go of them when its worker is finished ([`run`]). Pods that use
//! the same object share one watch. Who asks for an object nobody claims yet, because the pod is quicker than the
//! claim, begins the watch; it ends soon if no claim follows. So there are never more entries than references of pods.
//!
//! While the server is away, what was known last is handed out. [`ClusterObjects::known`] and
//! [`ClusterObjects::seed`] carry that over a restart.

mod claims;
mod entries;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use model::{ConfigObject, ObjectKey};
use ports::api::objects::ApiObjects;
use ports::api::{ApiError, ApiErrorKind};
use ports::objects::{ObjectError, Objects};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::node_view::NodeView;
pub use claims::{Parts, run};
use entries::{Answer, Entries};

/// How long a reader waits for the first answer about an object.
const PATIENCE: Duration = Duration::from_secs(1);

/// How changes are noticed (`configMapAndSecretChangeDetectionStrategy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Each object in use is watched.
    Watch,
    /// Each object is read again when it was read so long ago, or when another pod begins to use it. What the control
    /// plane says of the node counts more.
    Cache(Duration),
    /// Each use reads the object.
    Get,
}

/// The store.
pub struct ClusterObjects {
    api: Arc<dyn ApiObjects>,
    strategy: Strategy,
    entries: Mutex<Entries>,
    /// Objects to be watched from now on.
    wanted: mpsc::UnboundedSender<ObjectKey>,
    /// The node as the API server shows it.
    node: OnceLock<watch::Receiver<NodeView>>,
}

impl ClusterObjects {
    /// An empty store and the objects it wants watched, which [`run`] takes.
    #[must_use]
    pub fn new(
        api: Arc<dyn ApiObjects>,
        strategy: Strategy,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<ObjectKey>) {
        let (wanted, orders) = mpsc::unbounded_channel();
        (Arc::new(Self { api, strategy, entries: Mutex::default(), wanted, node: OnceLock::new() }), orders)
    }

    /// Lets the control plane say how long objects are kept.
    pub fn follow(&self, node: watch::Receiver<NodeView>) {
        // Whoever was first stays.
        let _ = self.node.set(node);
    }

    /// How long objects are kept where they are not watched.
    fn age(&self, usual: Duration) -> Duration {
        let told = self.node.get().and_then(|node| node.borrow().object_ttl());
        told.unwrap_or(usual)
    }

    /// Every object that is held, for a store that outlives the agent. They may be secret.
    #[must_use]
    pub fn known(&self) -> Vec<Arc<ConfigObject>> {
        self.entries().known()
    }

    /// Takes what an earlier agent held. It is handed out only while the server cannot be asked, and never replaces
    /// what the server said.
    pub fn seed(&self, objects: Vec<Arc<ConfigObject>>) {
        self.entries().seed(objects);
    }

    /// Drops what was seeded and is asked for by nobody any more.
    pub fn forget_seeds(&self) {
        self.entries().seed(Vec::new());
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has an object watched if it is new; the strategies without watches read it when it is used.
    fn want(&self, key: &ObjectKey) {
        match self.strategy {
            // Fails only while the agent stops.
            Strategy::Watch => drop(self.wanted.send(key.clone())),
            Strategy::Cache(_) | Strategy::Get => {}
        }
    }

    /// The answer of the object's watch.
    async fn watched(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError> {
        let (mut answers, is_new) = self.entries().subscribe(key, Instant::now());
        if is_new {
            self.want(key);
        }
        let seed = self.entries().seed_of(key);
        let settled = |answer: &Answer| match answer {
            Answer::Object(_) | Answer::Missing => true,
            Answer::Failed(error) => seed.is_some() && error.is_transient(),
            Answer::None => false,
        };
        // After the wait the answer is what is known; an entry that is dropped meanwhile has none.
        let _ = tokio::time::timeout(PATIENCE, answers.wait_for(settled)).await;
        let answer = answers.borrow().clone();
        if !answer.is_told() {
            self.entries().owe(key);
        }
        match (answer, seed) {
            (Answer::Object(object), _) => Ok(object),
            (Answer::Missing, _) => Err(ObjectError::NotFound(key.clone())),
            (Answer::Failed(_) | Answer::None, Some(seed)) => Ok(seed),
            (Answer::Failed(error), None) => Err(unread(key, &error.message)),
            (Answer::None, None) => Err(unread(key, "timed out waiting for the condition")),
        }
    }

    /// The answer of a request now, or what was known last when the server is away.
    async fn read(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError> {
        let read = self.api.get(key).await;
        let mut entries = self.entries();
        match read {
            Ok(object) => {
                let object = Arc::new(object);
                entries.set(key, Answer::Object(Arc::clone(&object)), Some(Instant::now()));
                Ok(object)
            }
            Err(ApiError { kind: ApiErrorKind::NotFound, .. }) => {
                entries.set(key, Answer::Missing, Some(Instant::now()));
                Err(ObjectError::NotFound(key.clone()))
            }
            Err(error) => match entries.last(key) {
                Some(object) if error.is_transient() => Ok(object),
                Some(_) | None => Err(unread(key, &error.message)),
            },
        }
    }
}

/// What users read when nothing is known of an object, in upstream's form.
fn unread(key: &ObjectKey, why: &str) -> ObjectError {
    let reason = format!("failed to sync {} cache: {why}", key.kind.resource());
    ObjectError::Unavailable { key: key.clone(), reason }
}

#[async_trait]
impl Objects for ClusterObjects {
    async fn get(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError> {
        match self.strategy {
            Strategy::Watch => self.watched(key).await,
            Strategy::Get => self.read(key).await,
            Strategy::Cache(age) => {
                let fresh = self.entries().fresh(key, Instant::now(), self.age(age));
                match fresh {
                    Some(Answer::Object(object)) => Ok(object),
                    Some(Answer::Missing) => Err(ObjectError::NotFound(key.clone())),
                    Some(Answer::Failed(_) | Answer::None) | None => self.read(key).await,
                }
            }
        }
    }

    fn changes(&self) -> BoxStream<'static, ObjectKey> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        self.entries().listen(sender);
        futures::stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()
    }
}

#[cfg(test)]
mod tests;
