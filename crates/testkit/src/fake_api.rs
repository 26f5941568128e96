//! An API server that holds the pods of one node in memory: watches, status patches with the UID as a precondition,
//! graceful and final deletes. Every write is recorded, and requests can be made to fail.

mod merge;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use k8s_openapi::api::core::v1 as core;
use model::{PodFullName, PodUid, StatusUrgency};
use ports::api::pods::ApiPods;
use ports::api::{ApiError, ApiErrorKind, Feed, FeedStream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// A requested write, whether or not it succeeded.
#[derive(Clone, Debug, PartialEq)]
pub enum ApiWrite {
    Create {
        pod: Box<core::Pod>,
    },
    Patch {
        urgency: StatusUrgency,
        name: String,
        patch: Value,
    },
    Delete {
        name: String,
        /// UID precondition.
        uid: String,
        grace_seconds: i64,
    },
}

/// Decides whether a write fails.
type Fault = Box<dyn FnMut(&ApiWrite) -> Option<ApiError> + Send>;

/// The fake server; clones share their state.
#[derive(Clone, Default)]
pub struct FakeApi {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Objects by namespace and name.
    pods: BTreeMap<(String, String), Value>,
    version: u64,
    watches: Vec<mpsc::UnboundedSender<Feed<core::Pod>>>,
    writes: Vec<ApiWrite>,
    fault: Option<Fault>,
    /// Number of upcoming patches that succeed but whose response is lost.
    lost_answers: usize,
}

#[must_use]
pub fn api_error(kind: ApiErrorKind) -> ApiError {
    ApiError { kind, message: format!("{kind:?}"), retry_after: None }
}

fn object(value: &Value) -> core::Pod {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

fn key(value: &Value) -> (String, String) {
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

impl FakeApi {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds or replaces a pod, like the scheduler; it must have namespace, name and UID.
    pub fn put(&self, pod: Value) {
        self.state().put(pod);
    }

    /// # Panics
    /// When there is no such pod.
    #[expect(clippy::panic, reason = "the way a test fails")]
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let mut pod = state.find(name).unwrap_or_else(|| panic!("no pod {name}"));
        change(&mut pod);
        state.put(pod);
    }

    /// Deletes a pod gracefully, like a user; the node must finish the deletion.
    pub fn delete_gracefully(&self, name: &str, grace_seconds: i64) {
        self.change(name, |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace_seconds);
        });
    }

    /// Removes a pod at once, like a forced delete.
    pub fn remove(&self, name: &str) {
        self.state().remove(name);
    }

    /// The pod of that name in any namespace.
    #[must_use]
    pub fn pod(&self, name: &str) -> Option<Value> {
        self.state().find(name)
    }

    #[must_use]
    pub fn writes(&self) -> Vec<ApiWrite> {
        self.state().writes.clone()
    }

    pub fn clear_writes(&self) {
        self.state().writes.clear();
    }

    /// Passes every write from now on to `fault`.
    pub fn set_fault(&self, fault: impl FnMut(&ApiWrite) -> Option<ApiError> + Send + 'static) {
        self.state().fault = Some(Box::new(fault));
    }

    /// The next `count` patches succeed, but their responses are lost.
    pub fn lose_answers(&self, count: usize) {
        self.state().lost_answers = count;
    }

    pub fn clear_fault(&self) {
        self.state().fault = None;
    }
}

impl State {
    fn find(&self, name: &str) -> Option<Value> {
        self.pods.iter().find(|((_, known), _)| known == name).map(|(_, pod)| pod.clone())
    }

    fn put(&mut self, mut pod: Value) -> core::Pod {
        self.version += 1;
        pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let applied = object(&pod);
        self.pods.insert(key(&pod), pod);
        self.broadcast(&Feed::Applied(applied.clone()));
        applied
    }

    fn remove(&mut self, name: &str) {
        let pod_key = self.pods.keys().find(|(_, known)| known == name).cloned();
        if let Some(pod) = pod_key.and_then(|pod_key| self.pods.remove(&pod_key)) {
            self.version += 1;
            self.broadcast(&Feed::Deleted(object(&pod)));
        }
    }

    fn broadcast(&mut self, update: &Feed<core::Pod>) {
        self.watches.retain(|watch| watch.send(update.clone()).is_ok());
    }

    fn note(&mut self, write: ApiWrite) -> Result<(), ApiError> {
        let error = self.fault.as_mut().and_then(|fault| fault(&write));
        self.writes.push(write);
        error.map_or(Ok(()), Err)
    }

    fn with_uid(&self, name: &PodFullName, uid: Option<&str>) -> Result<Value, ApiError> {
        let pod_key = (name.namespace.clone(), name.name.clone());
        let pod = self.pods.get(&pod_key).ok_or_else(|| api_error(ApiErrorKind::NotFound))?;
        match uid {
            Some(uid) if pod["metadata"]["uid"] != uid => Err(api_error(ApiErrorKind::Conflict)),
            Some(_) | None => Ok(pod.clone()),
        }
    }
}

#[async_trait]
impl ApiPods for FakeApi {
    fn watch(&self) -> FeedStream<core::Pod> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        // Cannot fail: the receiver exists.
        let _ = sender.send(Feed::Listed(state.pods.values().map(object).collect()));
        state.watches.push(sender);
        tokio_stream::wrappers::UnboundedReceiverStream::new(receiver).boxed()
    }

    async fn get(&self, name: &PodFullName) -> Result<core::Pod, ApiError> {
        self.state().with_uid(name, None).map(|pod| object(&pod))
    }

    async fn create(&self, pod: &core::Pod) -> Result<core::Pod, ApiError> {
        let mut state = self.state();
        state.note(ApiWrite::Create { pod: Box::new(pod.clone()) })?;
        let mut made = serde_json::to_value(pod).map_err(|_| api_error(ApiErrorKind::Invalid))?;
        if state.pods.contains_key(&key(&made)) {
            return Err(api_error(ApiErrorKind::AlreadyExists));
        }
        made["metadata"]["uid"] = json!(format!("made-{}", state.version + 1));
        made["status"] = json!({"phase": "Pending"});
        Ok(state.put(made))
    }

    async fn patch_status(
        &self,
        urgency: StatusUrgency,
        name: &PodFullName,
        patch: &Value,
    ) -> Result<core::Pod, ApiError> {
        let mut state = self.state();
        state.note(ApiWrite::Patch { urgency, name: name.name.clone(), patch: patch.clone() })?;
        let mut pod = state.with_uid(name, patch["metadata"]["uid"].as_str())?;
        pod["status"] = merge::merged(&pod["status"], &patch["status"]);
        let made = state.put(pod);
        if let Some(left) = state.lost_answers.checked_sub(1) {
            state.lost_answers = left;
            return Err(api_error(ApiErrorKind::Unreachable));
        }
        Ok(made)
    }

    async fn delete(&self, name: &PodFullName, uid: &PodUid, grace_seconds: i64) -> Result<(), ApiError> {
        let mut state = self.state();
        let write = ApiWrite::Delete { name: name.name.clone(), uid: uid.to_string(), grace_seconds };
        state.note(write)?;
        let mut pod = state.with_uid(name, Some(uid.as_str()))?;
        let has_finalizers = pod["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if has_finalizers {
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace_seconds);
            state.put(pod);
        } else {
            state.remove(&name.name);
        }
        Ok(())
    }
}
