//! `/stats/summary`, `/metrics/resource` and `/metrics/cadvisor`.

pub(crate) mod exposition;

use std::sync::Arc;

use agent::statistics::{Scope, Statistics};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use model::metric_family::MetricFamily;

use crate::answers::json;
use crate::metrics_pages::page;

/// The paths; nothing on a listener that has no statistics.
pub(crate) fn routes(statistics: Option<Arc<Statistics>>) -> Router {
    let Some(statistics) = statistics else { return Router::new() };
    Router::new()
        .route("/stats/summary", get(summary).post(summary))
        .route("/metrics/resource", get(resource))
        .route("/metrics/cadvisor", get(cadvisor))
        .with_state(statistics)
}

async fn summary(State(statistics): State<Arc<Statistics>>, RawQuery(query): RawQuery) -> Response {
    let scope = match query.as_deref().is_some_and(only_cpu_and_memory) {
        true => Scope::CpuAndMemory,
        false => Scope::Everything,
    };
    json(&statistics.summary(scope).await)
}

/// The words that Go takes for true.
fn only_cpu_and_memory(query: &str) -> bool {
    let mut values = query.split('&').filter_map(|part| part.strip_prefix("only_cpu_and_memory="));
    values.next().is_some_and(|value| matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"))
}

async fn resource(State(statistics): State<Arc<Statistics>>, headers: HeaderMap) -> Response {
    shown(&statistics.resource().await, &headers)
}

async fn cadvisor(State(statistics): State<Arc<Statistics>>, headers: HeaderMap) -> Response {
    shown(&statistics.cadvisor().await, &headers)
}

fn shown(families: &[MetricFamily], headers: &HeaderMap) -> Response {
    page(headers, |format| exposition::text(families, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_summary_is_asked_for_by_a_true_word() {
        assert!(only_cpu_and_memory("only_cpu_and_memory=true"));
        assert!(only_cpu_and_memory("x=1&only_cpu_and_memory=1"));
        assert!(!only_cpu_and_memory("only_cpu_and_memory=false"));
        assert!(!only_cpu_and_memory("only_cpu_and_memory"));
    }
}
