//! The metrics pages: Prometheus text or OpenMetrics, with gzip if the client accepts it.

mod negotiation;

use std::io::Write as _;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use model::metrics_text::{Format, OPEN_METRICS_END};

use crate::published_state::PublishedState;
use crate::statistics::exposition;
use negotiation::{accepts_gzip, format};

pub(crate) fn routes(published: PublishedState) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/metrics/probes", get(probe_metrics))
        .with_state(published)
}

async fn metrics(State(published): State<PublishedState>, headers: HeaderMap) -> Response {
    let disk_families = match &published.statistics {
        Some(statistics) => statistics.disk_families().await,
        None => Vec::new(),
    };
    page(&headers, |format| {
        let mut text = published.metrics.encode(format);
        insert_before_end(&mut text, &exposition::part(&disk_families, format));
        text
    })
}

/// Inserts families before the end mark.
fn insert_before_end(page: &mut String, families: &str) {
    let end = page.strip_suffix(OPEN_METRICS_END).unwrap_or(page).len();
    page.insert_str(end, families);
}

async fn probe_metrics(State(published): State<PublishedState>, headers: HeaderMap) -> Response {
    page(&headers, |format| published.metrics.probes.encode(format))
}

/// A page in the format and encoding that the client accepts.
pub(crate) fn page(headers: &HeaderMap, write: impl FnOnce(Format) -> String) -> Response {
    let values =
        |name| headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    let accepted: Vec<&str> = values(header::ACCEPT).collect();
    let encodings: Vec<&str> = values(header::ACCEPT_ENCODING).collect();
    let format = format(&accepted.join(","));
    let content_type = match format {
        Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    let text = write(format);
    if accepts_gzip(&encodings.join(","))
        && let Ok(compressed) = gzip(&text)
    {
        let headers = [(header::CONTENT_TYPE, content_type), (header::CONTENT_ENCODING, "gzip")];
        return (headers, compressed).into_response();
    }
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

fn gzip(text: &str) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_families_before_open_metrics_end() {
        let mut page = "a 1\n# EOF\n".to_owned();
        insert_before_end(&mut page, "b 2\n");
        assert_eq!(page, "a 1\nb 2\n# EOF\n");
    }
}
