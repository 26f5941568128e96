//! The agent's HTTP listeners: the local health check and the read-only port.
//!
//! Each listener has a router of its own, so that nothing appears on one because it was added to the other.

mod event_list;
mod pod_list;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use k8s_openapi::api::core::v1::PodStatus;
use model::Pod;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event_log::EventLog;
use crate::file_report::FileReport;
use crate::metrics::Metrics;
use crate::published::Reader;

/// Wait before a busy port is tried again.
const BIND_AGAIN: Duration = Duration::from_secs(5);

/// What the handlers read.
#[derive(Clone)]
pub struct Views {
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// Their statuses.
    pub statuses: Reader<PodStatus>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// State of every manifest file.
    pub manifests: watch::Receiver<Vec<FileReport>>,
    /// Events.
    pub events: Arc<EventLog>,
    /// Last sign of life of the sync loop.
    pub heartbeat: watch::Receiver<Instant>,
    /// Longest silence of the sync loop that counts as healthy.
    pub longest_silence: Duration,
}

/// The router of the local health check.
pub fn health_router() -> Router {
    Router::new().route("/healthz", get(ok)).route("/healthz/ping", get(ok))
}

/// The router of the read-only port.
pub fn read_only_router(views: Views) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/healthz/ping", get(ok))
        .route("/healthz/log", get(ok))
        .route("/healthz/syncloop", get(sync_loop))
        .route("/pods", get(pods))
        .route("/pods/", get(pods))
        .route("/metrics", get(metrics))
        .route("/metrics/probes", get(probe_metrics))
        .route("/podward/manifests", get(manifests))
        .route("/podward/events", get(events))
        .with_state(views)
}

/// Serves a router until cancelled. A port that is taken is tried again.
pub async fn serve(name: &'static str, address: SocketAddr, router: Router, cancel: CancellationToken) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                tracing::error!(%name, %address, %error, "cannot listen; trying again in {BIND_AGAIN:?}");
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(BIND_AGAIN) => {}
        }
    };
    tracing::info!(%name, %address, "listening");
    let served = axum::serve(listener, router).with_graceful_shutdown(cancel.clone().cancelled_owned());
    tokio::select! {
        // Connections that stay open must not hold up a stop.
        () = async { cancel.cancelled().await; tokio::time::sleep(Duration::from_millis(200)).await } => {}
        result = served => if let Err(error) = result {
            tracing::error!(%name, %address, %error, "listener failed");
        },
    }
}

async fn ok() -> &'static str {
    "ok"
}

async fn healthz(State(views): State<Views>) -> Response {
    match views.loop_problem() {
        None => "ok".into_response(),
        Some(problem) => {
            let text =
                format!("[+]ping ok\n[+]log ok\n[-]syncloop failed: {problem}\nhealthz check failed\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

async fn sync_loop(State(views): State<Views>) -> Response {
    match views.loop_problem() {
        None => "ok".into_response(),
        Some(problem) => {
            let text = format!("internal server error: {problem}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

impl Views {
    /// Why the sync loop counts as stuck.
    #[must_use]
    pub fn loop_problem(&self) -> Option<String> {
        let silence = self.heartbeat.borrow().elapsed();
        (silence > self.longest_silence)
            .then(|| format!("sync loop took longer than expected: silent for {}s", silence.as_secs()))
    }
}

async fn pods(State(views): State<Views>) -> Response {
    let mut pods = views.desired.all();
    pods.sort_by(|a, b| a.full_name.cmp(&b.full_name).then_with(|| a.uid.cmp(&b.uid)));
    let statuses: Vec<_> = pods.iter().map(|pod| views.statuses.get(&pod.uid)).collect();
    let pairs = pods.iter().zip(&statuses);
    let list =
        pod_list::pod_list(pairs.map(|(pod, status)| (&**pod, status.as_deref().unwrap_or(&pod.status))));
    match list {
        Ok(list) => json(&list),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn metrics(State(views): State<Views>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], views.metrics.encode()).into_response()
}

async fn probe_metrics(State(views): State<Views>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], views.metrics.probes.encode()).into_response()
}

async fn manifests(State(views): State<Views>) -> Response {
    json(&*views.manifests.borrow())
}

async fn events(State(views): State<Views>) -> Response {
    json(&event_list::event_list(&views.events.all()))
}

fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
