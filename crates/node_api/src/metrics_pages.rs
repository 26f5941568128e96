//! The pages of metrics.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::views::Views;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn routes(views: Views) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/metrics/probes", get(probe_metrics))
        .with_state(views)
}

async fn metrics(State(views): State<Views>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], views.metrics.encode()).into_response()
}

async fn probe_metrics(State(views): State<Views>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], views.metrics.probes.encode()).into_response()
}
