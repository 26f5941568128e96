//! The pages of metrics: Prometheus text, OpenMetrics for who prefers it, compressed for who can take it.

mod negotiation;

use std::io::Write as _;

use agent::metrics::Format;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::views::Views;
use negotiation::{accepts_gzip, format};

pub(crate) fn routes(views: Views) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/metrics/probes", get(probe_metrics))
        .with_state(views)
}

async fn metrics(State(views): State<Views>, headers: HeaderMap) -> Response {
    page(&headers, |format| views.metrics.encode(format))
}

async fn probe_metrics(State(views): State<Views>, headers: HeaderMap) -> Response {
    page(&headers, |format| views.metrics.probes.encode(format))
}

fn page(headers: &HeaderMap, write: impl FnOnce(Format) -> String) -> Response {
    let wanted =
        |name| headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    let accepted: Vec<&str> = wanted(header::ACCEPT).collect();
    let encodings: Vec<&str> = wanted(header::ACCEPT_ENCODING).collect();
    let format = format(&accepted.join(","));
    let content_type = match format {
        Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    let text = write(format);
    if accepts_gzip(&encodings.join(","))
        && let Ok(small) = compressed(&text)
    {
        let headers = [(header::CONTENT_TYPE, content_type), (header::CONTENT_ENCODING, "gzip")];
        return (headers, small).into_response();
    }
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

fn compressed(text: &str) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}
