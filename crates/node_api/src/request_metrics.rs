//! Counts requests, as the outermost layer of a router.

use std::sync::Arc;
use std::time::Instant;

use agent::metrics::{Metrics, RequestLabels};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::guarded_body::GuardedBody;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerType {
    /// The main port.
    ReadWrite,
    ReadOnly,
}

/// Values of the label `path` on both listeners.
const PATHS: [&str; 14] = [
    "attach",
    "containerLogs",
    "exec",
    "healthz",
    "logs",
    "metrics",
    "metrics/cadvisor",
    "metrics/probes",
    "metrics/resource",
    "pods",
    "portForward",
    "run",
    "runningpods",
    "stats",
];
/// Additional values on the main port.
const MAIN_PATHS: [&str; 5] = ["checkpoint", "configz", "debug", "flagz", "statusz"];
/// Paths that upstream labels `long_running`.
const LONG_RUNNING: [&str; 3] = ["attach", "debug", "exec"];
/// Values of the label `method`. Upstream has none for PATCH.
const METHODS: [&str; 8] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE"];
const OTHER: &str = "other";

#[derive(Clone)]
pub(crate) struct RequestCounter {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) server: ServerType,
}

/// Counts a request as in flight until the response is sent or the client disconnects.
pub(crate) async fn count(State(counter): State<RequestCounter>, request: Request, next: Next) -> Response {
    let labels = labels(request.method().as_str(), request.uri().path(), counter.server);
    counter.metrics.http.came(&labels);
    let in_flight = InFlightRequest { metrics: counter.metrics, labels, started_at: Instant::now() };
    next.run(request).await.map(|body| Body::new(GuardedBody::new(body, in_flight)))
}

struct InFlightRequest {
    metrics: Arc<Metrics>,
    labels: RequestLabels,
    started_at: Instant,
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.metrics.http.ended(&self.labels, self.started_at.elapsed());
    }
}

fn labels(method: &str, path: &str, server: ServerType) -> RequestLabels {
    let path = path_label(path, server);
    RequestLabels {
        long_running: LONG_RUNNING.contains(&path),
        method: METHODS.into_iter().find(|known| *known == method).unwrap_or(OTHER).to_owned(),
        path: path.to_owned(),
        server: match server {
            ServerType::ReadWrite => "readwrite",
            ServerType::ReadOnly => "readonly",
        },
    }
}

fn path_label(path: &str, server: ServerType) -> &'static str {
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let name = match (first, second) {
        ("metrics", second) if !second.is_empty() => format!("metrics/{second}"),
        _ => first.to_owned(),
    };
    let main = MAIN_PATHS.into_iter().filter(|_| server == ServerType::ReadWrite);
    PATHS.into_iter().chain(main).find(|known| *known == name).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_label_is_bounded() {
        let cases = [
            ("/pods", "pods", "pods"),
            ("/pods/", "pods", "pods"),
            ("/metrics", "metrics", "metrics"),
            ("/metrics/cadvisor", "metrics/cadvisor", "metrics/cadvisor"),
            ("/metrics/slis", "other", "other"),
            ("/stats/summary", "stats", "stats"),
            ("/exec/ns/pod/c", "exec", "exec"),
            ("/configz", "configz", "other"),
            ("/debug/pprof/profile", "debug", "other"),
            ("/checkpoint/ns/p/c", "checkpoint", "other"),
            ("/", "other", "other"),
            ("/who/knows", "other", "other"),
        ];
        for (path, main, read_only) in cases {
            assert_eq!(path_label(path, ServerType::ReadWrite), main, "{path}");
            assert_eq!(path_label(path, ServerType::ReadOnly), read_only, "{path}");
        }
    }

    #[test]
    fn method_label_is_bounded_and_long_running_follows_path() {
        let labels = |method, path| {
            let labels = labels(method, path, ServerType::ReadWrite);
            (labels.method, labels.long_running)
        };
        assert_eq!(labels("GET", "/exec/n/p/c"), ("GET".to_owned(), true));
        assert_eq!(labels("PATCH", "/pods"), ("other".to_owned(), false));
        assert_eq!(labels("BREW", "/portForward/n/p"), ("other".to_owned(), false));
    }
}
