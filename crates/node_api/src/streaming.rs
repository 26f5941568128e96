//! `/exec`, `/attach`, `/portForward` and `/run`.
//!
//! ```text
//!  request ─► pod, container ─► runtime: one-time URL ─► upgrade there ─► upgrade here ─► session
//!                                                                         ├─ raw: bytes both ways (SPDY, WebSocket ≤ v4)
//!                                                                         ├─ translator: WebSocket v5 ↔ SPDY v4
//!                                                                         └─ tunnel: SPDY in a WebSocket ↔ SPDY
//! ```
//! The client is told of a success only when the runtime has agreed, so that every failure before has its own code.
//! A session holds no more than a few pieces of data: a side that does not read makes the other side wait.

mod backend;
mod closing;
mod handshake;
mod raw;
mod sessions;
mod translator;
mod tunnel;

use std::sync::Arc;
use std::time::Duration;

use agent::metrics::Metrics;
use agent::observation::Observer;
use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use decide::streaming::{Upgrade, forwarded_ports, wanted_streams};
use model::{ContainerId, ContainerState, ObservedPod, Pod, SandboxState, StreamChoice};
use ports::runtime::{Containers, RuntimeError, RuntimeErrorKind, Streaming};

use crate::pod_lookup::PodLookup;
use crate::queries;
pub use sessions::Sessions;

/// How long a client is to wait when the runtime has too many requests open, in seconds: as long as it keeps one.
const COME_AGAIN: &str = "60";
/// How long a new look at a pod may take.
const LOOK: Duration = Duration::from_secs(10);

/// What streams are made from.
#[derive(Clone)]
pub struct StreamingParts {
    /// Pods by name.
    pub pods: PodLookup,
    /// What runs.
    pub observer: Observer,
    /// The runtime's streams.
    pub streams: Arc<dyn Streaming>,
    /// The runtime's containers.
    pub containers: Arc<dyn Containers>,
    /// Open connections.
    pub sessions: Sessions,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// The gate `ExtendWebSocketsToKubelet`: whether WebSockets that runtimes do not speak are served here.
    pub translate: bool,
}

/// The paths.
pub(crate) fn routes(parts: StreamingParts) -> Router {
    Router::new()
        .route("/exec/{namespace}/{pod}/{container}", get(exec).post(exec))
        .route("/exec/{namespace}/{pod}/{uid}/{container}", get(exec_uid).post(exec_uid))
        .route("/attach/{namespace}/{pod}/{container}", get(attach).post(attach))
        .route("/attach/{namespace}/{pod}/{uid}/{container}", get(attach_uid).post(attach_uid))
        .route("/portForward/{namespace}/{pod}", get(port_forward).post(port_forward))
        .route("/portForward/{namespace}/{pod}/{uid}", get(port_forward_uid).post(port_forward_uid))
        .route("/run/{namespace}/{pod}/{container}", post(run))
        .route("/run/{namespace}/{pod}/{uid}/{container}", post(run_uid))
        .with_state(parts)
}

/// The answer to a request that comes to nothing.
pub(super) struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut answer = (self.0, self.1).into_response();
        if self.0 == StatusCode::TOO_MANY_REQUESTS {
            answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(COME_AGAIN));
        }
        answer
    }
}

impl From<RuntimeError> for Refusal {
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

/// Whom a path names.
struct Asked {
    namespace: String,
    pod: String,
    uid: Option<String>,
    container: String,
}

type Place = (String, String, String);
type PlaceWithUid = (String, String, String, String);

impl From<Place> for Asked {
    fn from((namespace, pod, container): Place) -> Self {
        Self { namespace, pod, uid: None, container }
    }
}

impl From<PlaceWithUid> for Asked {
    fn from((namespace, pod, uid, container): PlaceWithUid) -> Self {
        Self { namespace, pod, uid: Some(uid), container }
    }
}

type Parts = State<StreamingParts>;

async fn exec(parts: Parts, Path(place): Path<Place>, query: RawQuery, request: Request) -> Response {
    answer(start_exec(&parts, &place.into(), &query, request).await)
}

async fn exec_uid(
    parts: Parts,
    Path(place): Path<PlaceWithUid>,
    query: RawQuery,
    request: Request,
) -> Response {
    answer(start_exec(&parts, &place.into(), &query, request).await)
}

async fn attach(parts: Parts, Path(place): Path<Place>, query: RawQuery, request: Request) -> Response {
    answer(start_attach(&parts, &place.into(), &query, request).await)
}

async fn attach_uid(
    parts: Parts,
    Path(place): Path<PlaceWithUid>,
    query: RawQuery,
    request: Request,
) -> Response {
    answer(start_attach(&parts, &place.into(), &query, request).await)
}

async fn port_forward(
    parts: Parts,
    Path((namespace, pod)): Path<(String, String)>,
    query: RawQuery,
    request: Request,
) -> Response {
    let asked = Asked { namespace, pod, uid: None, container: String::new() };
    answer(start_port_forward(&parts, &asked, &query, request).await)
}

async fn port_forward_uid(
    parts: Parts,
    Path((namespace, pod, uid)): Path<Place>,
    query: RawQuery,
    request: Request,
) -> Response {
    let asked = Asked { namespace, pod, uid: Some(uid), container: String::new() };
    answer(start_port_forward(&parts, &asked, &query, request).await)
}

async fn run(parts: Parts, Path(place): Path<Place>, query: RawQuery) -> Response {
    answer(run_command(&parts, &place.into(), &query).await)
}

async fn run_uid(parts: Parts, Path(place): Path<PlaceWithUid>, query: RawQuery) -> Response {
    answer(run_command(&parts, &place.into(), &query).await)
}

fn answer(result: Result<Response, Refusal>) -> Response {
    result.unwrap_or_else(IntoResponse::into_response)
}

async fn start_exec(
    parts: &StreamingParts,
    asked: &Asked,
    RawQuery(query): &RawQuery,
    request: Request,
) -> Result<Response, Refusal> {
    let query = queries::pairs(query.as_deref());
    let streams = wanted_streams(&query).map_err(bad_request)?;
    let pod = find_pod(parts, asked)?;
    let upgrade = wanted_upgrade(request.headers())?;
    let container = running_container(parts, &pod, &asked.container).await?;
    let command: Vec<String> = queries::all(&query, "command").map(str::to_owned).collect();
    let url = parts.streams.exec_url(&container, &command, streams).await?;
    serve_process(parts, "exec", (upgrade, streams), &url, request).await
}

async fn start_attach(
    parts: &StreamingParts,
    asked: &Asked,
    RawQuery(query): &RawQuery,
    request: Request,
) -> Result<Response, Refusal> {
    let streams = wanted_streams(&queries::pairs(query.as_deref())).map_err(bad_request)?;
    let pod = find_pod(parts, asked)?;
    let upgrade = wanted_upgrade(request.headers())?;
    let container = running_container(parts, &pod, &asked.container).await?;
    // Whether the process has a terminal was settled when it started.
    let tty = pod.container(&asked.container).is_some_and(|found| found.container.tty == Some(true));
    let url = parts.streams.attach_url(&container, StreamChoice { tty, ..streams }).await?;
    serve_process(parts, "attach", (upgrade, streams), &url, request).await
}

async fn serve_process(
    parts: &StreamingParts,
    subresource: &'static str,
    (upgrade, streams): (Upgrade, StreamChoice),
    url: &str,
    request: Request,
) -> Result<Response, Refusal> {
    if parts.translate && upgrade == Upgrade::StreamClose {
        parts.metrics.http.websocket(subresource);
        return translator::start(&parts.sessions, url, streams, request).await;
    }
    raw::start(&parts.sessions, url, request).await
}

async fn start_port_forward(
    parts: &StreamingParts,
    asked: &Asked,
    RawQuery(query): &RawQuery,
    request: Request,
) -> Result<Response, Refusal> {
    let upgrade = Upgrade::of(request.headers());
    let tunnel = match &upgrade {
        Upgrade::Tunnel(protocols) if parts.translate => Some(protocols.clone()),
        _ => None,
    };
    let websocket = matches!(upgrade, Upgrade::WebSocket | Upgrade::StreamClose | Upgrade::Tunnel(_));
    let ports = if websocket && tunnel.is_none() {
        forwarded_ports(&queries::pairs(query.as_deref())).map_err(bad_request)?
    } else {
        Vec::new()
    };
    let pod = find_pod(parts, asked)?;
    wanted_upgrade(request.headers())?;
    let ready = |pod: &ObservedPod| {
        pod.sandboxes.iter().find(|sandbox| sandbox.state == SandboxState::Ready).map(|s| s.id.clone())
    };
    let missing = || Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("pod not found ({:?})", asked.pod));
    let sandbox = observe(parts, &pod, ready).await.ok_or_else(missing)?;
    let url = parts.streams.port_forward_url(&sandbox, &ports).await?;
    match tunnel {
        Some(protocols) => {
            parts.metrics.http.websocket("portforward");
            tunnel::start(&parts.sessions, &url, &protocols, request).await
        }
        None => raw::start(&parts.sessions, &url, request).await,
    }
}

async fn run_command(
    parts: &StreamingParts,
    asked: &Asked,
    RawQuery(query): &RawQuery,
) -> Result<Response, Refusal> {
    let pod = find_pod(parts, asked)?;
    let query = queries::pairs(query.as_deref());
    let command: Vec<String> =
        queries::first(&query, "cmd").unwrap_or_default().split(' ').map(str::to_owned).collect();
    let container = running_container(parts, &pod, &asked.container).await?;
    let output = parts.containers.exec(&container, &command, Duration::ZERO).await;
    let output = output.map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.message))?;
    if output.exit_code != 0 {
        let text = format!("command '{}' exited with {}", command.join(" "), output.exit_code);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("{text}: {said}")));
    }
    // Whatever it is: upstream calls it so.
    let media = [(header::CONTENT_TYPE, "application/json")];
    Ok((media, [output.stdout, output.stderr].concat()).into_response())
}

fn bad_request(problem: String) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, problem)
}

fn wanted_upgrade(headers: &HeaderMap) -> Result<Upgrade, Refusal> {
    match Upgrade::of(headers) {
        Upgrade::None => Err(bad_request("Upgrade request required".to_owned())),
        upgrade => Ok(upgrade),
    }
}

/// Reads an upgrade from headers.
trait OfHeaders {
    fn of(headers: &HeaderMap) -> Self;
}

impl OfHeaders for Upgrade {
    fn of(headers: &HeaderMap) -> Self {
        let values = |name: header::HeaderName| -> Vec<&str> {
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
        };
        let upgrade = values(header::UPGRADE);
        let protocols = values(header::SEC_WEBSOCKET_PROTOCOL);
        Self::read(&values(header::CONNECTION), upgrade.first().copied().unwrap_or_default(), &protocols)
    }
}

fn find_pod(parts: &StreamingParts, asked: &Asked) -> Result<Arc<Pod>, Refusal> {
    let missing = || Refusal(StatusCode::NOT_FOUND, "pod does not exist".to_owned());
    let pod = parts.pods.by_name(&asked.namespace, &asked.pod).ok_or_else(missing)?;
    match &asked.uid {
        Some(uid) if !parts.pods.has_uid(&pod, uid) => {
            Err(Refusal(StatusCode::NOT_FOUND, "pod not found".to_owned()))
        }
        _ => Ok(pod),
    }
}

async fn running_container(parts: &StreamingParts, pod: &Pod, name: &str) -> Result<ContainerId, Refusal> {
    let running = |pod: &ObservedPod| {
        let mut all = pod.containers_named(name);
        all.find(|container| container.state == ContainerState::Running).map(|container| container.id.clone())
    };
    let missing = || Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("container not found ({name:?})"));
    observe(parts, pod, running).await.ok_or_else(missing)
}

/// Finds something in what was last observed of a pod, or in a new look when it is not there.
async fn observe<T>(
    parts: &StreamingParts,
    pod: &Pod,
    find: impl Fn(&ObservedPod) -> Option<T>,
) -> Option<T> {
    if let Some(found) = parts.observer.last(&pod.uid).and_then(|pod| find(&pod)) {
        return Some(found);
    }
    let now = parts.observer.moments().next();
    let look = parts.observer.after(&pod.uid, &pod.full_name, now);
    find(&*tokio::time::timeout(LOOK, look).await.ok()?)
}

#[cfg(test)]
mod tests;
