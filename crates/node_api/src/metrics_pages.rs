//! The pages of metrics.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::views::Views;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) async fn metrics(State(views): State<Views>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], views.metrics.encode()).into_response()
}

pub(crate) async fn probe_metrics(State(views): State<Views>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], views.metrics.probes.encode()).into_response()
}
