//! Counts requests by method and by the first part of their path.

use std::sync::Arc;
use std::time::Instant;

use agent::metrics::{Metrics, RequestLabels};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

/// First parts of paths that are counted under their own name. Others would be names of whoever asks.
const KNOWN: [&str; 20] = [
    "attach",
    "checkpoint",
    "configz",
    "containerLogs",
    "debug",
    "exec",
    "flagz",
    "healthz",
    "logs",
    "metrics",
    "metrics/cadvisor",
    "metrics/probes",
    "metrics/resource",
    "metrics/slis",
    "pods",
    "portForward",
    "run",
    "runningpods",
    "stats",
    "statusz",
];

/// Where requests are counted, and for which port.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) server: &'static str,
}

/// Counts a request from its beginning to its answer, also when the client goes away.
pub(crate) async fn count(State(counted): State<Counted>, request: Request, next: Next) -> Response {
    let path = bucket(request.uri().path());
    let labels = RequestLabels {
        long_running: matches!(path, "exec" | "attach" | "portForward" | "debug"),
        method: method(request.method()).to_owned(),
        path: path.to_owned(),
        server: counted.server,
    };
    counted.metrics.http.came(&labels);
    let _running = InFlight { metrics: counted.metrics, labels, begun: Instant::now() };
    next.run(request).await
}

struct InFlight {
    metrics: Arc<Metrics>,
    labels: RequestLabels,
    begun: Instant,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.http.ended(&self.labels, self.begun.elapsed());
    }
}

fn bucket(path: &str) -> &'static str {
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let first = parts.next().unwrap_or_default();
    let second = parts.next().filter(|second| first == "metrics" && !second.is_empty());
    let matches = |known: &&&str| match second {
        Some(second) => known.strip_prefix("metrics/") == Some(second),
        None => **known == first,
    };
    KNOWN.iter().find(matches).copied().unwrap_or("other")
}

/// Clients may invent methods; they are not counted one by one.
fn method(method: &axum::http::Method) -> &str {
    match method.as_str() {
        known @ ("GET" | "POST" | "PUT" | "DELETE" | "HEAD" | "OPTIONS" | "PATCH" | "CONNECT" | "TRACE") => {
            known
        }
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_counted_by_their_first_part() {
        for (path, expected) in [
            ("/pods", "pods"),
            ("/pods/", "pods"),
            ("/containerLogs/default/web/main", "containerLogs"),
            ("/metrics", "metrics"),
            ("/metrics/", "metrics"),
            ("/metrics/cadvisor", "metrics/cadvisor"),
            ("/metrics/nothing", "other"),
            ("/stats/summary", "stats"),
            ("/", "other"),
            ("/..%2f", "other"),
        ] {
            assert_eq!(bucket(path), expected, "{path}");
        }
    }
}
