//! One request to the API server and its outcome.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use model::{Pod, PodFullName, PodSource, PodUid, StatusUrgency};
use ports::api::pods::ApiPods;
use ports::api::{ApiError, ApiErrorKind};
use serde_json::Value;

use super::limiter::WriteClass;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) uid: PodUid,
    pub(super) full_name: PodFullName,
}

pub(super) enum Write {
    Patch {
        urgency: StatusUrgency,
        target: Target,
        patch: Value,
    },
    /// Reads the object to find out whether an earlier patch arrived.
    Read {
        urgency: StatusUrgency,
        target: Target,
    },
    Delete {
        target: Target,
    },
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
    pub(super) fn urgency(&self) -> StatusUrgency {
        match self {
            Self::Patch { urgency, .. } | Self::Read { urgency, .. } => *urgency,
            Self::Delete { .. } => StatusUrgency::Urgent,
        }
    }

    pub(super) async fn execute(self, pods: Arc<dyn ApiPods>) -> FinishedWrite {
        let class = WriteClass::of(self.urgency());
        match self {
            Self::Patch { urgency, target, patch } => {
                let outcome = match with_timeout(pods.patch_status(urgency, &target.full_name, &patch)).await
                {
                    Ok(object) => patched(object),
                    Err(error) => after_failed_patch(&*pods, &target, error).await,
                };
                FinishedWrite { class, target, outcome }
            }
            Self::Read { target, .. } => {
                let outcome = match read(&*pods, &target).await {
                    WriteOutcome::Patched(pod) => WriteOutcome::Read(pod),
                    outcome @ (WriteOutcome::Read(_)
                    | WriteOutcome::Deleted
                    | WriteOutcome::NotFound
                    | WriteOutcome::Failed(_)) => outcome,
                };
                FinishedWrite { class, target, outcome }
            }
            Self::Delete { target } => {
                let outcome = match with_timeout(pods.delete(&target.full_name, &target.uid, 0)).await {
                    Ok(()) => {
                        tracing::info!(pod = %target.full_name, uid = %target.uid, "deleted pod from the API server");
                        WriteOutcome::Deleted
                    }
                    Err(error) if matches!(error.kind, ApiErrorKind::NotFound | ApiErrorKind::Conflict) => {
                        WriteOutcome::NotFound
                    }
                    Err(error) => WriteOutcome::Failed(error),
                };
                FinishedWrite { class, target, outcome }
            }
        }
    }
}

fn patched(mut object: core::Pod) -> WriteOutcome {
    object.metadata.managed_fields = None;
    match Pod::from_object(object, PodSource::Api) {
        Ok(pod) => WriteOutcome::Patched(Arc::new(pod)),
        Err(error) => WriteOutcome::Failed(ApiError {
            kind: ApiErrorKind::Server,
            message: format!("response is not a pod: {error}"),
            retry_after: None,
        }),
    }
}

/// A conflict means that the pod was recreated under the same name, or that another writer changed it meanwhile.
async fn after_failed_patch(pods: &dyn ApiPods, target: &Target, error: ApiError) -> WriteOutcome {
    match error.kind {
        ApiErrorKind::NotFound => WriteOutcome::NotFound,
        ApiErrorKind::Conflict => read(pods, target).await,
        ApiErrorKind::AlreadyExists
        | ApiErrorKind::Forbidden
        | ApiErrorKind::Unauthorized
        | ApiErrorKind::Invalid
        | ApiErrorKind::Gone
        | ApiErrorKind::Throttled
        | ApiErrorKind::Server
        | ApiErrorKind::Unreachable => WriteOutcome::Failed(error),
    }
}

/// Returns the current object as if it had just been written, so that the next evaluation compares with it.
async fn read(pods: &dyn ApiPods, target: &Target) -> WriteOutcome {
    match with_timeout(pods.get(&target.full_name)).await {
        Ok(object) if object.metadata.uid.as_deref() != Some(target.uid.as_str()) => WriteOutcome::NotFound,
        Err(error) if error.kind == ApiErrorKind::NotFound => WriteOutcome::NotFound,
        Ok(object) => patched(object),
        Err(error) => WriteOutcome::Failed(error),
    }
}

async fn with_timeout<T>(request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    tokio::time::timeout(REQUEST_TIMEOUT, request).await.unwrap_or_else(|_| {
        Err(ApiError {
            kind: ApiErrorKind::Unreachable,
            message: format!("no response within {REQUEST_TIMEOUT:?}"),
            retry_after: None,
        })
    })
}
