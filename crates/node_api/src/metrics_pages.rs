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

use crate::statistics::exposition;
use crate::views::Views;
use negotiation::{accepts_gzip, format};

pub(crate) fn routes(views: Views) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/metrics/probes", get(probe_metrics))
        .with_state(views)
}

async fn metrics(State(views): State<Views>, headers: HeaderMap) -> Response {
    let told = match &views.statistics {
        Some(statistics) => statistics.disk_families().await,
        None => Vec::new(),
    };
    page(&headers, |format| {
        let mut text = views.metrics.encode(format);
        insert(&mut text, &exposition::part(&told, format));
        text
    })
}

/// Puts families before the end of a page.
fn insert(page: &mut String, families: &str) {
    let end = page.strip_suffix("# EOF\n").unwrap_or(page).len();
    page.insert_str(end, families);
}

async fn probe_metrics(State(views): State<Views>, headers: HeaderMap) -> Response {
    page(&headers, |format| views.metrics.probes.encode(format))
}

/// A page in the format that was asked for.
pub(crate) fn page(headers: &HeaderMap, write: impl FnOnce(Format) -> String) -> Response {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_come_before_the_end() {
        let mut page = "a 1\n# EOF\n".to_owned();
        insert(&mut page, "b 2\n");
        assert_eq!(page, "a 1\nb 2\n# EOF\n");
    }
}
