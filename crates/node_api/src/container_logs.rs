//! `/containerLogs/{namespace}/{pod}/{container}`.
//!
//! ```text
//!  query ─► options ─► pod ─► status: which container ─► observation: which file ─► reader ─► transcript ─► body
//! ```
//! The body is read from the file in chunks, and only as fast as the client reads it.

mod reader;
mod tail;

use std::path::PathBuf;
use std::sync::Arc;

use agent::pipeline::cached_status::CachedStatus;
use agent::pipeline::observation::Observer;
use agent::pipeline::tables::Reader;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use decide::logs::container_logs::{LogOptions, LogQueryError, choose_container};
use model::{ContainerId, ContainerState, PodUid};
use ports::clock::Clock;
use ports::host::log_files::LogFiles;

use crate::pod_lookup::PodLookup;
use crate::queries;
use reader::LogReader;

#[derive(Clone)]
pub struct ContainerLogDeps {
    pub pods: PodLookup,
    pub statuses: Reader<CachedStatus>,
    pub observer: Observer,
    pub files: Arc<dyn LogFiles>,
    pub clock: Arc<dyn Clock>,
    /// The gate `PodLogsQuerySplitStreams`.
    pub split_streams: bool,
}

pub(crate) fn routes(deps: ContainerLogDeps) -> Router {
    Router::new().route("/containerLogs/{namespace}/{pod}/{container}", get(logs)).with_state(deps)
}

type ErrorResponse = (StatusCode, String);

async fn logs(
    State(deps): State<ContainerLogDeps>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let target = LogTarget { namespace, pod, container };
    match open(&deps, &target, query.as_deref()).await {
        Ok(reader) => {
            let body = Body::from_stream(reader.into_stream());
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
        }
        Err(error) => error.into_response(),
    }
}

struct LogTarget {
    namespace: String,
    pod: String,
    container: String,
}

async fn open(
    deps: &ContainerLogDeps,
    target: &LogTarget,
    query: Option<&str>,
) -> Result<LogReader, ErrorResponse> {
    let LogTarget { namespace, pod: name, container } = target;
    let options = LogOptions::read(&queries::pairs(query), deps.split_streams, deps.clock.now());
    let options = options.map_err(query_error)?;
    let pod = deps.pods.by_name(namespace, name);
    let pod = pod.ok_or_else(|| (StatusCode::NOT_FOUND, format!("pod {name:?} does not exist")))?;
    if pod.container(container).is_none() {
        let text = format!("container {container:?} not found in pod {name:?}");
        return Err((StatusCode::NOT_FOUND, text));
    }
    let status = deps.statuses.status(&pod.uid);
    let id = choose_container(name, status.as_ref().unwrap_or(&pod.status), container, options.previous)
        .map_err(|problem| (StatusCode::BAD_REQUEST, problem))?;
    let runtime_id = id.split_once("://").map_or(id.as_str(), |(_, runtime_id)| runtime_id);
    let observed = ObservedContainer {
        observer: deps.observer.clone(),
        pod: pod.uid.clone(),
        container: runtime_id.into(),
    };
    let unknown = || (StatusCode::BAD_REQUEST, format!("unable to retrieve container logs for {id}"));
    let log = observed.log().ok_or_else(unknown)?;
    LogReader::open(&deps.files, log, observed, &options).await.map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        (StatusCode::BAD_REQUEST, format!("failed to open log file: {error}: {source}"))
    })
}

fn query_error(error: LogQueryError) -> ErrorResponse {
    match error {
        LogQueryError::Unreadable(field) => {
            tracing::debug!(field, "failed to decode log query");
            (StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#.to_owned())
        }
        LogQueryError::Invalid(problem) => {
            tracing::debug!(%problem, "invalid log query");
            (StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#.to_owned())
        }
        LogQueryError::SplitStreamsOff(stream) => (
            StatusCode::BAD_REQUEST,
            format!(
                "unable to return the given log stream: {stream:?}. \
                 Please enable PodLogsQuerySplitStreams feature gate in kubelet"
            ),
        ),
    }
}

/// A container, read from the last observation of its pod.
#[derive(Clone)]
struct ObservedContainer {
    observer: Observer,
    pod: PodUid,
    container: ContainerId,
}

impl ObservedContainer {
    fn log(&self) -> Option<PathBuf> {
        self.find(|status| PathBuf::from(&status.log_path)).filter(|log| !log.as_os_str().is_empty())
    }

    fn is_running(&self) -> bool {
        self.find(|status| status.state == ContainerState::Running).unwrap_or(false)
    }

    fn find<T>(&self, read: impl FnOnce(&model::ContainerStatus) -> T) -> Option<T> {
        let pod = self.observer.last(&self.pod)?;
        pod.containers.iter().find(|status| status.id == self.container).map(read)
    }
}

#[cfg(test)]
mod tests;
