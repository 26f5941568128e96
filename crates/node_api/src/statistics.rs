//! `/stats/summary`, `/metrics/resource` and `/metrics/cadvisor`.

pub(crate) mod exposition;

use std::sync::Arc;

use agent::statistics::{Scope, Statistics};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::Response;
use axum::routing::get;
use model::metric_family::MetricFamily;

use crate::metrics_pages::page;
use crate::queries;
use crate::responses::json;

/// No paths on a node without statistics.
pub(crate) fn routes(statistics: Option<Arc<Statistics>>) -> Router {
    let Some(statistics) = statistics else { return Router::new() };
    Router::new()
        .route("/stats/summary", get(summary).post(summary))
        .route("/metrics/resource", get(resource))
        .route("/metrics/cadvisor", get(cadvisor))
        .with_state(statistics)
}

async fn summary(
    State(statistics): State<Arc<Statistics>>,
    RawQuery(query): RawQuery,
    method: Method,
    headers: HeaderMap,
    body: String,
) -> Response {
    let form = (method == Method::POST && is_form(&headers)).then_some(body.as_str());
    let scope = match only_cpu_and_memory(query.as_deref(), form) {
        true => Scope::CpuAndMemory,
        false => Scope::Everything,
    };
    json(&statistics.summary(scope).await)
}

/// As upstream: true only if query and form together contain the parameter exactly once, with the value `true`.
fn only_cpu_and_memory(query: Option<&str>, form: Option<&str>) -> bool {
    let pairs = [queries::pairs(form), queries::pairs(query)].concat();
    queries::all(&pairs, "only_cpu_and_memory").eq(["true"])
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

async fn resource(State(statistics): State<Arc<Statistics>>, headers: HeaderMap) -> Response {
    metrics_page(&statistics.resource().await, &headers)
}

async fn cadvisor(State(statistics): State<Arc<Statistics>>, headers: HeaderMap) -> Response {
    metrics_page(&statistics.cadvisor().await, &headers)
}

fn metrics_page(families: &[MetricFamily], headers: &HeaderMap) -> Response {
    page(headers, |format| exposition::text(families, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cpu_and_memory_requires_single_true() {
        let cases = [
            (Some("only_cpu_and_memory=true"), None, true),
            (Some("x=1&only_cpu_and_memory=%74rue"), None, true),
            (None, Some("only_cpu_and_memory=true"), true),
            (Some("only_cpu_and_memory=true"), Some("only_cpu_and_memory=true"), false),
            (Some("only_cpu_and_memory=true&only_cpu_and_memory=true"), None, false),
            (Some("only_cpu_and_memory=1"), None, false),
            (Some("only_cpu_and_memory=True"), None, false),
            (Some("only_cpu_and_memory"), None, false),
            (None, None, false),
        ];
        for (query, form, short) in cases {
            assert_eq!(only_cpu_and_memory(query, form), short, "{query:?} {form:?}");
        }
    }

    #[test]
    fn recognizes_form_by_content_type() {
        let has_form_type =
            |kind: &str| is_form(&HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().unwrap())]));
        assert!(has_form_type("application/x-www-form-urlencoded; charset=utf-8"));
        assert!(!has_form_type("application/json"));
        assert!(!is_form(&HeaderMap::new()));
    }
}
