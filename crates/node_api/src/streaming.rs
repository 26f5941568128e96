//! `/exec`, `/attach`, `/portForward` and `/run`.
//!
//! ```text
//!  request ─► pod, container ─► runtime: one-time URL ─► upgrade there ─► upgrade here ─► session
//!                                                                         ├─ passthrough: bytes both ways (SPDY, WebSocket ≤ v4)
//!                                                                         ├─ translator: WebSocket v5 ↔ SPDY v4
//!                                                                         └─ tunnel: SPDY in a WebSocket ↔ SPDY
//! ```
//! The client receives a success only after the runtime has accepted, so every earlier failure has its own status code.
//! A session buffers only a few chunks of data: if one side does not read, the other side has to wait.

mod backend;
mod closing;
mod handshake;
mod passthrough;
mod sessions;
mod translator;
mod tunnel;

use std::sync::Arc;
use std::time::Duration;

use agent::metrics::Metrics;
use agent::pipeline::observation::Observer;
use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use decide::http::streaming::{Upgrade, forwarded_ports, requested_streams};
use model::{ContainerId, ContainerState, ObservedPod, Pod, SandboxState, StreamChoice};
use ports::runtime::{Containers, RuntimeError, RuntimeErrorKind, Streaming};
use serde::Deserialize;

use crate::pod_lookup::PodLookup;
use crate::queries;
pub use sessions::StreamSessions;

/// In seconds: how long the runtime keeps a URL that was not used. Sent when the runtime has too many of them.
const RETRY_AFTER: &str = "60";
const OBSERVATION_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct StreamingDeps {
    pub pods: PodLookup,
    pub observer: Observer,
    pub streams: Arc<dyn Streaming>,
    pub containers: Arc<dyn Containers>,
    pub sessions: StreamSessions,
    pub metrics: Arc<Metrics>,
    /// The gate `ExtendWebSocketsToKubelet`: translate WebSocket protocols that the runtime does not support.
    pub translate: bool,
}

pub(crate) fn routes(deps: StreamingDeps) -> Router {
    Router::new()
        .route("/exec/{namespace}/{pod}/{container}", get(exec).post(exec))
        .route("/exec/{namespace}/{pod}/{uid}/{container}", get(exec).post(exec))
        .route("/attach/{namespace}/{pod}/{container}", get(attach).post(attach))
        .route("/attach/{namespace}/{pod}/{uid}/{container}", get(attach).post(attach))
        .route("/portForward/{namespace}/{pod}", get(port_forward).post(port_forward))
        .route("/portForward/{namespace}/{pod}/{uid}", get(port_forward).post(port_forward))
        .route("/run/{namespace}/{pod}/{container}", post(run))
        .route("/run/{namespace}/{pod}/{uid}/{container}", post(run))
        .with_state(deps)
}

pub(super) struct ErrorResponse(StatusCode, String);

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let mut response = (self.0, self.1).into_response();
        if self.0 == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

impl From<RuntimeError> for ErrorResponse {
    fn from(error: RuntimeError) -> Self {
        let code = match error.kind {
            RuntimeErrorKind::NotFound => StatusCode::NOT_FOUND,
            RuntimeErrorKind::Exhausted => StatusCode::TOO_MANY_REQUESTS,
            RuntimeErrorKind::Unavailable
            | RuntimeErrorKind::DeadlineExceeded
            | RuntimeErrorKind::Unimplemented
            | RuntimeErrorKind::AlreadyExists
            | RuntimeErrorKind::Busy
            | RuntimeErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(code, error.message)
    }
}

/// The pod and container in a request path.
#[derive(Deserialize)]
struct StreamTarget {
    namespace: String,
    pod: String,
    uid: Option<String>,
    #[serde(default)]
    container: String,
}

type Deps = State<StreamingDeps>;
type Target = Path<StreamTarget>;

async fn exec(
    deps: Deps,
    Path(target): Target,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let query = queries::pairs(query.as_deref());
    let streams = requested_streams(&query).map_err(bad_request)?;
    let pod = find_pod(&deps, &target)?;
    let upgrade = required_upgrade(request.headers())?;
    let container = running_container(&deps, &pod, &target.container).await?;
    let command: Vec<String> = queries::all(&query, "command").map(str::to_owned).collect();
    let url = deps.streams.exec_url(&container, &command, streams).await?;
    serve_process(&deps, "exec", (upgrade, streams), &url, request).await
}

async fn attach(
    deps: Deps,
    Path(target): Target,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let streams = requested_streams(&queries::pairs(query.as_deref())).map_err(bad_request)?;
    let pod = find_pod(&deps, &target)?;
    let upgrade = required_upgrade(request.headers())?;
    let container = running_container(&deps, &pod, &target.container).await?;
    // The container spec decides whether the process has a terminal, not the client.
    let tty = pod.container(&target.container).is_some_and(|found| found.container.tty == Some(true));
    let url = deps.streams.attach_url(&container, StreamChoice { tty, ..streams }).await?;
    serve_process(&deps, "attach", (upgrade, streams), &url, request).await
}

async fn serve_process(
    deps: &StreamingDeps,
    subresource: &'static str,
    (upgrade, streams): (Upgrade, StreamChoice),
    url: &str,
    request: Request,
) -> Result<Response, ErrorResponse> {
    if deps.translate && upgrade == Upgrade::StreamClose {
        deps.metrics.http.websocket(subresource);
        return translator::start(&deps.sessions, url, streams, request).await;
    }
    passthrough::start(&deps.sessions, url, request).await
}

async fn port_forward(
    deps: Deps,
    Path(target): Target,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let upgrade = Upgrade::from_headers(request.headers());
    let tunnel = match &upgrade {
        Upgrade::Tunnel(protocols) if deps.translate => Some(protocols.clone()),
        _ => None,
    };
    let websocket = matches!(upgrade, Upgrade::WebSocket | Upgrade::StreamClose | Upgrade::Tunnel(_));
    let ports = if websocket && tunnel.is_none() {
        forwarded_ports(&queries::pairs(query.as_deref())).map_err(bad_request)?
    } else {
        Vec::new()
    };
    let pod = find_pod(&deps, &target)?;
    required_upgrade(request.headers())?;
    let ready = |pod: &ObservedPod| {
        pod.sandboxes.iter().find(|sandbox| sandbox.state == SandboxState::Ready).map(|s| s.id.clone())
    };
    let not_found =
        || ErrorResponse(StatusCode::INTERNAL_SERVER_ERROR, format!("pod not found ({:?})", target.pod));
    let sandbox = observe(&deps, &pod, ready).await.ok_or_else(not_found)?;
    let url = deps.streams.port_forward_url(&sandbox, &ports).await?;
    match tunnel {
        Some(protocols) => {
            deps.metrics.http.websocket("portforward");
            tunnel::start(&deps.sessions, &url, &protocols, request).await
        }
        None => passthrough::start(&deps.sessions, &url, request).await,
    }
}

async fn run(deps: Deps, Path(target): Target, RawQuery(query): RawQuery) -> Result<Response, ErrorResponse> {
    let pod = find_pod(&deps, &target)?;
    let query = queries::pairs(query.as_deref());
    let command: Vec<String> =
        queries::first(&query, "cmd").unwrap_or_default().split(' ').map(str::to_owned).collect();
    let container = running_container(&deps, &pod, &target.container).await?;
    let output = deps.containers.exec(&container, &command, Duration::ZERO).await;
    let output = output.map_err(|error| ErrorResponse(StatusCode::INTERNAL_SERVER_ERROR, error.message))?;
    if output.exit_code != 0 {
        let text = format!("command '{}' exited with {}", command.join(" "), output.exit_code);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(ErrorResponse(StatusCode::INTERNAL_SERVER_ERROR, format!("{text}: {stderr}")));
    }
    // Upstream uses this type for any output.
    let media = [(header::CONTENT_TYPE, "application/json")];
    Ok((media, [output.stdout, output.stderr].concat()).into_response())
}

fn bad_request(problem: String) -> ErrorResponse {
    ErrorResponse(StatusCode::BAD_REQUEST, problem)
}

fn required_upgrade(headers: &HeaderMap) -> Result<Upgrade, ErrorResponse> {
    match Upgrade::from_headers(headers) {
        Upgrade::None => Err(bad_request("Upgrade request required".to_owned())),
        upgrade => Ok(upgrade),
    }
}

trait FromHeaders {
    fn from_headers(headers: &HeaderMap) -> Self;
}

impl FromHeaders for Upgrade {
    fn from_headers(headers: &HeaderMap) -> Self {
        let values = |name: header::HeaderName| -> Vec<&str> {
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
        };
        let upgrade = values(header::UPGRADE);
        let protocols = values(header::SEC_WEBSOCKET_PROTOCOL);
        Self::read(&values(header::CONNECTION), upgrade.first().copied().unwrap_or_default(), &protocols)
    }
}

fn find_pod(deps: &StreamingDeps, target: &StreamTarget) -> Result<Arc<Pod>, ErrorResponse> {
    let not_found = || ErrorResponse(StatusCode::NOT_FOUND, "pod does not exist".to_owned());
    let pod = deps.pods.by_name(&target.namespace, &target.pod).ok_or_else(not_found)?;
    match &target.uid {
        Some(uid) if !deps.pods.has_uid(&pod, uid) => {
            Err(ErrorResponse(StatusCode::NOT_FOUND, "pod not found".to_owned()))
        }
        _ => Ok(pod),
    }
}

async fn running_container(
    deps: &StreamingDeps,
    pod: &Pod,
    name: &str,
) -> Result<ContainerId, ErrorResponse> {
    let running = |pod: &ObservedPod| {
        let mut all = pod.containers_named(name);
        all.find(|container| container.state == ContainerState::Running).map(|container| container.id.clone())
    };
    let not_found =
        || ErrorResponse(StatusCode::INTERNAL_SERVER_ERROR, format!("container not found ({name:?})"));
    observe(deps, pod, running).await.ok_or_else(not_found)
}

/// Searches the last observation of a pod, and a new one if the first contains no match.
async fn observe<T>(deps: &StreamingDeps, pod: &Pod, find: impl Fn(&ObservedPod) -> Option<T>) -> Option<T> {
    if let Some(found) = deps.observer.last(&pod.uid).and_then(|pod| find(&pod)) {
        return Some(found);
    }
    let now = deps.observer.moments().next();
    let observation = deps.observer.after(&pod.uid, &pod.full_name, now);
    find(&*tokio::time::timeout(OBSERVATION_TIMEOUT, observation).await.ok()?)
}

#[cfg(test)]
mod tests;
