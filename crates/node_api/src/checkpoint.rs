//! `/checkpoint`: writes the state of a running container to a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::pipeline::observation::Observer;
use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use model::{ContainerId, ObservedPod, Timestamp};
use ports::clock::Clock;
use ports::runtime::Runtime;
use serde_json::json;

use crate::pod_lookup::PodLookup;
use crate::queries;
use crate::responses::json as json_response;

#[derive(Clone)]
pub struct CheckpointDeps {
    pub lookup: PodLookup,
    pub observer: Observer,
    pub runtime: Arc<dyn Runtime>,
    /// `checkpoints` below the root folder.
    pub folder: PathBuf,
    pub clock: Arc<dyn Clock>,
}

pub(crate) fn routes(deps: CheckpointDeps) -> Router {
    Router::new().route("/checkpoint/{namespace}/{pod}/{container}", post(checkpoint)).with_state(deps)
}

async fn checkpoint(
    State(deps): State<CheckpointDeps>,
    Path((namespace, pod_name, container)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let not_found = |text: String| (StatusCode::NOT_FOUND, text).into_response();
    let Some(pod) = deps.lookup.by_name(&namespace, &pod_name) else {
        return not_found("pod does not exist".to_owned());
    };
    if pod.container(&container).is_none() {
        return not_found(format!("container {container} does not exist"));
    }
    let pairs = queries::pairs(query.as_deref());
    let Some(timeout) = timeout(&pairs) else {
        return not_found("cannot parse value of timeout parameter".to_owned());
    };
    let failed = |reason: String| {
        let text = format!("checkpointing of {namespace}/{pod_name}/{container} failed ({reason})");
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    };
    let observed = deps.observer.last(&pod.uid);
    let Some(id) = observed.as_ref().and_then(|pod| running_container(pod, &container)) else {
        return failed(format!("container {container} not found"));
    };
    if let Err(error) = create_folder(deps.folder.clone()).await {
        return failed(format!("create {}: {error}", deps.folder.display()));
    }
    // Upstream's file names contain whole seconds.
    let now = Timestamp::from_secs(deps.clock.now().as_nanos().div_euclid(1_000_000_000)).to_rfc3339();
    let file = deps.folder.join(format!("checkpoint-{pod_name}_{namespace}-{container}-{now}.tar"));
    match deps.runtime.checkpoint_container(&id, &file, timeout).await {
        Ok(()) => json_response(&json!({"items": [file]})),
        Err(error) => failed(error.to_string()),
    }
}

/// The last value wins; a negative one means zero. `None` if it is not a number.
fn timeout(query: &[(String, String)]) -> Option<Duration> {
    let seconds = queries::all(query, "timeout").last().unwrap_or("0").parse::<i64>().ok()?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

fn running_container(pod: &ObservedPod, container: &str) -> Option<ContainerId> {
    pod.running().find(|status| status.name == container).map(|status| status.id.clone())
}

/// Only root may read checkpoints, because they contain the memory of containers.
async fn create_folder(folder: PathBuf) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let create = move || std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    tokio::task::spawn_blocking(create).await.map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_timeout_parameter_wins() {
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
