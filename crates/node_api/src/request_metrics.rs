//! Counts requests before anything else looks at them.

use std::sync::Arc;
use std::time::Instant;

use agent::metrics::{Metrics, RequestLabels};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::guarded_body::GuardedBody;

/// Which listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerType {
    /// The main port.
    ReadWrite,
    /// The read-only port.
    ReadOnly,
}

/// Paths that both listeners know by a name of their own.
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
/// Those of the main port only.
const MAIN_PATHS: [&str; 5] = ["checkpoint", "configz", "debug", "flagz", "statusz"];
/// Paths whose requests may take long, as upstream counts them.
const LONG_RUNNING: [&str; 3] = ["attach", "debug", "exec"];
/// Methods with a name of their own; upstream has none for PATCH.
const METHODS: [&str; 8] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE"];
const OTHER: &str = "other";

/// Where requests are counted, and for which port.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) server: ServerType,
}

/// Counts a request until its answer was sent, also when the client goes away.
pub(crate) async fn count(State(counted): State<Counted>, request: Request, next: Next) -> Response {
    let labels = labels(request.method().as_str(), request.uri().path(), counted.server);
    counted.metrics.http.came(&labels);
    let under_way = UnderWay { metrics: counted.metrics, labels, began: Instant::now() };
    next.run(request).await.map(|body| Body::new(GuardedBody::new(body, under_way)))
}

struct UnderWay {
    metrics: Arc<Metrics>,
    labels: RequestLabels,
    began: Instant,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.metrics.http.ended(&self.labels, self.began.elapsed());
    }
}

fn labels(method: &str, path: &str, server: ServerType) -> RequestLabels {
    let path = path_name(path, server);
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

fn path_name(path: &str, server: ServerType) -> &'static str {
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
    fn paths_have_few_names() {
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
            assert_eq!(path_name(path, ServerType::ReadWrite), main, "{path}");
            assert_eq!(path_name(path, ServerType::ReadOnly), read_only, "{path}");
        }
    }

    #[test]
    fn methods_and_lengths_are_bounded_too() {
        let labels = |method, path| {
            let labels = labels(method, path, ServerType::ReadWrite);
            (labels.method, labels.long_running)
        };
        assert_eq!(labels("GET", "/exec/n/p/c"), ("GET".to_owned(), true));
        assert_eq!(labels("PATCH", "/pods"), ("other".to_owned(), false));
        assert_eq!(labels("BREW", "/portForward/n/p"), ("other".to_owned(), false));
    }
}
