//! `/checkpoint`: freezes a container into a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::observation::Observer;
use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use model::{ContainerId, ObservedPod, Timestamp};
use ports::clock::Clock;
use ports::runtime::Runtime;
use serde_json::json;

use crate::answers::json as json_answer;
use crate::pod_lookup::PodLookup;
use crate::queries;

/// What checkpoints need.
#[derive(Clone)]
pub struct CheckpointParts {
    /// Finds pods.
    pub lookup: PodLookup,
    /// Finds their containers.
    pub observer: Observer,
    /// Makes checkpoints.
    pub runtime: Arc<dyn Runtime>,
    /// Where they go: `checkpoints` below the root folder.
    pub folder: PathBuf,
    /// The time, for names.
    pub clock: Arc<dyn Clock>,
}

pub(crate) fn routes(parts: CheckpointParts) -> Router {
    Router::new().route("/checkpoint/{namespace}/{pod}/{container}", post(checkpoint)).with_state(parts)
}

async fn checkpoint(
    State(parts): State<CheckpointParts>,
    Path((namespace, pod_name, container)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let missing = |text: String| (StatusCode::NOT_FOUND, text).into_response();
    let Some(pod) = parts.lookup.by_name(&namespace, &pod_name) else {
        return missing("pod does not exist".to_owned());
    };
    if pod.container(&container).is_none() {
        return missing(format!("container {container} does not exist"));
    }
    let pairs = queries::pairs(query.as_deref());
    let Some(timeout) = timeout(&pairs) else {
        return missing("cannot parse value of timeout parameter".to_owned());
    };
    let failed = |reason: String| {
        let text = format!("checkpointing of {namespace}/{pod_name}/{container} failed ({reason})");
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    };
    let observed = parts.observer.last(&pod.uid);
    let Some(id) = observed.as_ref().and_then(|pod| running(pod, &container)) else {
        return failed(format!("container {container} not found"));
    };
    if let Err(error) = make_folder(parts.folder.clone()).await {
        return failed(format!("make {}: {error}", parts.folder.display()));
    }
    // Whole seconds, as upstream's names.
    let now = Timestamp::from_secs(parts.clock.now().as_nanos().div_euclid(1_000_000_000)).to_rfc3339();
    let file = parts.folder.join(format!("checkpoint-{pod_name}_{namespace}-{container}-{now}.tar"));
    match parts.runtime.checkpoint_container(&id, &file, timeout).await {
        Ok(()) => json_answer(&json!({"items": [file]})),
        Err(error) => failed(error.to_string()),
    }
}

/// The last of several counts. A runtime cannot wait for less than nothing.
fn timeout(query: &[(String, String)]) -> Option<Duration> {
    let seconds = queries::all(query, "timeout").last().unwrap_or("0").parse::<i64>().ok()?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// What has ended cannot be frozen.
fn running(pod: &ObservedPod, container: &str) -> Option<ContainerId> {
    pod.running().find(|status| status.name == container).map(|status| status.id.clone())
}

/// What a container had in memory is nobody else's business.
async fn make_folder(folder: PathBuf) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let make = move || std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    tokio::task::spawn_blocking(make).await.map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_timeout_counts() {
        for (query, expected) in [
            ("", Some(0)),
            ("timeout=3", Some(3)),
            ("timeout=3&timeout=7", Some(7)),
            ("timeout=-1", Some(0)),
            ("timeout=5000000000", Some(5_000_000_000)),
            ("timeout=7&timeout=x", None),
            ("timeout=", None),
        ] {
            let found = timeout(&queries::pairs(Some(query)));
            assert_eq!(found, expected.map(Duration::from_secs), "{query}");
        }
    }
}
