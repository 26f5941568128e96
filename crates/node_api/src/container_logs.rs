//! `/containerLogs/{namespace}/{pod}/{container}`.
//!
//! ```text
//!  query ─► options ─► pod ─► status: which container ─► observation: which file ─► reader ─► transcript ─► body
//! ```
//! The body is read from the file only as fast as the client takes it, piece by piece.

mod reader;
mod tail;

use std::path::PathBuf;
use std::sync::Arc;

use agent::kept_status::KeptStatus;
use agent::observation::Observer;
use agent::published::Reader;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use decide::container_logs::{LogOptions, LogQueryError, choose_container};
use model::{ContainerId, ContainerState, PodUid};
use ports::clock::Clock;
use ports::log_files::LogFiles;

use crate::pod_lookup::PodLookup;
use crate::queries;
use reader::LogReader;

/// What the logs are found by.
#[derive(Clone)]
pub struct LogParts {
    /// Pods by name.
    pub pods: PodLookup,
    /// Their statuses.
    pub statuses: Reader<KeptStatus>,
    /// What runs.
    pub observer: Observer,
    /// Log files.
    pub files: Arc<dyn LogFiles>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The gate `PodLogsQuerySplitStreams`.
    pub split_streams: bool,
}

/// The paths.
pub(crate) fn routes(parts: LogParts) -> Router {
    Router::new().route("/containerLogs/{namespace}/{pod}/{container}", get(logs)).with_state(parts)
}

type Refusal = (StatusCode, String);

async fn logs(
    State(parts): State<LogParts>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let asked = Asked { namespace, pod, container };
    match open(&parts, &asked, query.as_deref()).await {
        Ok(reader) => {
            let body = Body::from_stream(reader.into_stream());
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}

struct Asked {
    namespace: String,
    pod: String,
    container: String,
}

async fn open(parts: &LogParts, asked: &Asked, query: Option<&str>) -> Result<LogReader, Refusal> {
    let Asked { namespace, pod: name, container } = asked;
    let options = LogOptions::read(&queries::pairs(query), parts.split_streams, parts.clock.now());
    let options = options.map_err(refuse_query)?;
    let pod = parts.pods.by_name(namespace, name);
    let pod = pod.ok_or_else(|| (StatusCode::NOT_FOUND, format!("pod {name:?} does not exist")))?;
    if pod.container(container).is_none() {
        let text = format!("container {container:?} not found in pod {name:?}");
        return Err((StatusCode::NOT_FOUND, text));
    }
    let status = parts.statuses.status(&pod.uid);
    let id = choose_container(name, status.as_ref().unwrap_or(&pod.status), container, options.previous)
        .map_err(|problem| (StatusCode::BAD_REQUEST, problem))?;
    let bare = id.split_once("://").map_or(id.as_str(), |(_, bare)| bare);
    let watched = Watched { observer: parts.observer.clone(), pod: pod.uid.clone(), container: bare.into() };
    let unknown = || (StatusCode::BAD_REQUEST, format!("unable to retrieve container logs for {id}"));
    let log = watched.log().ok_or_else(unknown)?;
    LogReader::open(&parts.files, log, watched, &options).await.map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        (StatusCode::BAD_REQUEST, format!("failed to open log file: {error}: {source}"))
    })
}

fn refuse_query(error: LogQueryError) -> Refusal {
    match error {
        LogQueryError::Unreadable(field) => {
            tracing::debug!(field, "a question for logs could not be read");
            (StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#.to_owned())
        }
        LogQueryError::Invalid(problem) => {
            tracing::debug!(%problem, "a question for logs made no sense");
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

/// A container as it was last observed.
#[derive(Clone)]
struct Watched {
    observer: Observer,
    pod: PodUid,
    container: ContainerId,
}

impl Watched {
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
