//! Which listener has which paths.

use axum::Router;
use axum::routing::get;

use crate::views::Views;
use crate::{health, local, metrics_pages, pods};

/// The router of the local health check.
pub fn health_router() -> Router {
    Router::new().route("/healthz", get(health::ok)).route("/healthz/ping", get(health::ok))
}

/// The router of the read-only port.
pub fn read_only_router(views: Views) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/healthz/ping", get(health::ok))
        .route("/healthz/log", get(health::ok))
        .route("/healthz/syncloop", get(health::sync_loop))
        .route("/pods", get(pods::pods))
        .route("/pods/", get(pods::pods))
        .route("/metrics", get(metrics_pages::metrics))
        .route("/metrics/probes", get(metrics_pages::probe_metrics))
        .route("/podward/manifests", get(local::manifests))
        .route("/podward/events", get(local::events))
        .with_state(views)
}
