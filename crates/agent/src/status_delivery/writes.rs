//! One request to the API server and what became of it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use model::{Pod, PodFullName, PodSource, PodUid};
use ports::api::pods::{ApiPods, Urgency};
use ports::api::{ApiError, ApiErrorKind};
use serde_json::Value;

/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// The object that is written to.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) uid: PodUid,
    pub(super) full_name: PodFullName,
}

pub(super) enum Write {
    Patch {
        urgency: Urgency,
        target: Target,
        patch: Value,
    },
    /// Only a look at the object, before a patch.
    Look {
        urgency: Urgency,
        target: Target,
    },
    Delete {
        target: Target,
    },
}

pub(super) struct Done {
    pub(super) urgency: Urgency,
    pub(super) target: Target,
    pub(super) ended: Ended,
}

pub(super) enum Ended {
    /// The pod as it is now.
    Patched(Arc<Pod>),
    /// The same, and nothing was written: whether the server takes writes is as unknown as before.
    Seen(Arc<Pod>),
    /// The final delete was accepted.
    Deleted,
    /// There is no such object any more.
    Gone,
    Failed(ApiError),
}

impl Write {
    pub(super) fn urgency(&self) -> Urgency {
        match self {
            Self::Patch { urgency, .. } | Self::Look { urgency, .. } => *urgency,
            Self::Delete { .. } => Urgency::Urgent,
        }
    }

    pub(super) async fn make(self, pods: Arc<dyn ApiPods>) -> Done {
        match self {
            Self::Patch { urgency, target, patch } => {
                let ended = match timed(pods.patch_status(urgency, &target.full_name, &patch)).await {
                    Ok(object) => patched(object),
                    Err(error) => after_failed_patch(&*pods, &target, error).await,
                };
                Done { urgency, target, ended }
            }
            Self::Look { urgency, target } => {
                let ended = match look(&*pods, &target).await {
                    Ended::Patched(pod) => Ended::Seen(pod),
                    ended @ (Ended::Seen(_) | Ended::Deleted | Ended::Gone | Ended::Failed(_)) => ended,
                };
                Done { urgency, target, ended }
            }
            Self::Delete { target } => {
                let ended = match timed(pods.delete(&target.full_name, &target.uid, 0)).await {
                    Ok(()) => {
                        tracing::info!(pod = %target.full_name, uid = %target.uid, "pod is gone for good");
                        Ended::Deleted
                    }
                    Err(error) if matches!(error.kind, ApiErrorKind::NotFound | ApiErrorKind::Conflict) => {
                        Ended::Gone
                    }
                    Err(error) => Ended::Failed(error),
                };
                Done { urgency: Urgency::Urgent, target, ended }
            }
        }
    }
}

fn patched(mut object: core::Pod) -> Ended {
    object.metadata.managed_fields = None;
    match Pod::from_object(object, PodSource::Api) {
        Ok(pod) => Ended::Patched(Arc::new(pod)),
        Err(error) => Ended::Failed(ApiError {
            kind: ApiErrorKind::Server,
            message: format!("the answer is no pod: {error}"),
            retry_after: None,
        }),
    }
}

/// A conflict may mean that the pod was made anew under its name, or that others wrote at the same time.
async fn after_failed_patch(pods: &dyn ApiPods, target: &Target, error: ApiError) -> Ended {
    match error.kind {
        ApiErrorKind::NotFound => Ended::Gone,
        ApiErrorKind::Conflict => look(pods, target).await,
        ApiErrorKind::AlreadyExists
        | ApiErrorKind::Forbidden
        | ApiErrorKind::Unauthorized
        | ApiErrorKind::Invalid
        | ApiErrorKind::Gone
        | ApiErrorKind::Throttled
        | ApiErrorKind::Server
        | ApiErrorKind::Unreachable => Ended::Failed(error),
    }
}

/// The present object is as good as one that was just written: what is wanted is compared with it.
async fn look(pods: &dyn ApiPods, target: &Target) -> Ended {
    match timed(pods.get(&target.full_name)).await {
        Ok(object) if object.metadata.uid.as_deref() != Some(target.uid.as_str()) => Ended::Gone,
        Err(error) if error.kind == ApiErrorKind::NotFound => Ended::Gone,
        Ok(object) => patched(object),
        Err(error) => Ended::Failed(error),
    }
}

async fn timed<T>(request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    tokio::time::timeout(DEADLINE, request).await.unwrap_or_else(|_| {
        Err(ApiError {
            kind: ApiErrorKind::Unreachable,
            message: format!("no answer within {DEADLINE:?}"),
            retry_after: None,
        })
    })
}
