//! One request to the API server and its outcome.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use model::{Pod, PodFullName, PodSource, PodUid, StatusUrgency};
use ports::api::pods::ApiPods;
use ports::api::{ApiError, ApiErrorKind};
use serde_json::Value;

use super::limiter::WriteClass;
use crate::cluster::api_timeout::with_timeout;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) uid: PodUid,
    pub(super) full_name: PodFullName,
}

pub(super) struct Write {
    pub(super) urgency: StatusUrgency,
    pub(super) target: Target,
    pub(super) request: Request,
}

pub(super) enum Request {
    Patch(Value),
    /// Reads the object to find out whether an earlier patch arrived.
    Read,
    Delete,
}

pub(super) struct FinishedWrite {
    pub(super) class: WriteClass,
    pub(super) target: Target,
    pub(super) outcome: WriteOutcome,
}

pub(super) enum WriteOutcome {
    /// The pod after the patch.
    Patched(Arc<Pod>),
    /// The current pod. Nothing was written, so this does not show that the server accepts writes.
    Read(Arc<Pod>),
    /// The final delete was accepted.
    Deleted,
    /// The object no longer exists.
    NotFound,
    Failed(ApiError),
}

impl Write {
    pub(super) fn is_delete(&self) -> bool {
        matches!(self.request, Request::Delete)
    }

    pub(super) async fn execute(self, pods: Arc<dyn ApiPods>) -> FinishedWrite {
        let Self { urgency, target, request } = self;
        let outcome = match request {
            Request::Patch(patch) => target.patch(&*pods, urgency, &patch).await.map(WriteOutcome::Patched),
            Request::Read => target.read(&*pods).await.map(WriteOutcome::Read),
            Request::Delete => target.delete(&*pods).await.map(|()| WriteOutcome::Deleted),
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) if error.kind == ApiErrorKind::NotFound => WriteOutcome::NotFound,
            Err(error) => WriteOutcome::Failed(error),
        };
        FinishedWrite { class: WriteClass::of(urgency), target, outcome }
    }
}

impl Target {
    /// A conflict means that the pod was recreated under the same name, or that another writer changed it meanwhile. The
    /// current object is returned then, as if it had just been written, so that the next evaluation compares with it.
    async fn patch(
        &self,
        pods: &dyn ApiPods,
        urgency: StatusUrgency,
        patch: &Value,
    ) -> Result<Arc<Pod>, ApiError> {
        let patched = pods.patch_status(urgency, &self.full_name, patch);
        match with_timeout(REQUEST_TIMEOUT, patched).await {
            Ok(object) => to_pod(object),
            Err(error) if error.kind == ApiErrorKind::Conflict => self.read(pods).await,
            Err(error) => Err(error),
        }
    }

    /// The current object; one with another UID counts as not found.
    async fn read(&self, pods: &dyn ApiPods) -> Result<Arc<Pod>, ApiError> {
        let object = with_timeout(REQUEST_TIMEOUT, pods.get(&self.full_name)).await?;
        if object.metadata.uid.as_deref() != Some(self.uid.as_str()) {
            return Err(error(ApiErrorKind::NotFound, "pod has another UID".to_owned()));
        }
        to_pod(object)
    }

    async fn delete(&self, pods: &dyn ApiPods) -> Result<(), ApiError> {
        match with_timeout(REQUEST_TIMEOUT, pods.delete(&self.full_name, &self.uid, 0)).await {
            Ok(()) => {
                tracing::info!(pod = %self.full_name, uid = %self.uid, "deleted pod from the API server");
                Ok(())
            }
            // The pod was recreated under the same name.
            Err(conflict) if conflict.kind == ApiErrorKind::Conflict => {
                Err(error(ApiErrorKind::NotFound, conflict.message))
            }
            Err(error) => Err(error),
        }
    }
}

fn to_pod(mut object: core::Pod) -> Result<Arc<Pod>, ApiError> {
    object.metadata.managed_fields = None;
    Pod::from_object(object, PodSource::Api)
        .map(Arc::new)
        .map_err(|cause| error(ApiErrorKind::Server, format!("response is not a pod: {cause}")))
}

fn error(kind: ApiErrorKind, message: String) -> ApiError {
    ApiError { kind, message, retry_after: None }
}
