//! Requests to the node's API.

use std::time::Duration;

use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

const LABELS: [&str; 4] = ["long_running", "method", "path", "server_type"];

/// What a request is counted as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLabels {
    /// Whether it is a stream.
    pub long_running: bool,
    /// The method.
    pub method: String,
    /// The first part of the path.
    pub path: String,
    /// `readwrite` for the main port, `readonly` for the other.
    pub server: &'static str,
}

metrics_group! {
    /// Requests to the node's API.
    HttpMetrics {
        requests: Family<Counter, 4> = Family::new(LABELS),
            "kubelet_http_requests_total", "Requests to the node's API";
        duration: Family<Histogram, 4> = Family::histograms(LABELS, DEFAULT_BUCKETS),
            "kubelet_http_requests_duration_seconds", "Time of requests to the node's API";
        in_flight: Family<Gauge, 4> = Family::new(LABELS),
            "kubelet_http_inflight_requests", "Requests to the node's API that are being answered";
        websockets: Family<Counter, 1> = Family::new(["subresource"]),
            "kubelet_websocket_streaming_requests_total", "WebSockets of exec, attach and port-forward that end here";
    }
}

impl HttpMetrics {
    /// A WebSocket of a stream ends here; `subresource` is `exec`, `attach` or `portforward`.
    pub fn websocket(&self, subresource: &str) {
        self.websockets.get([subresource]).inc();
    }

    /// A request came.
    pub fn came(&self, labels: &RequestLabels) {
        let values = labels.values();
        self.requests.get(values).inc();
        self.in_flight.get(values).add(1.0);
    }

    /// A request was answered, or given up.
    pub fn ended(&self, labels: &RequestLabels, took: Duration) {
        let values = labels.values();
        self.duration.get(values).observe(took.as_secs_f64());
        self.in_flight.get(values).add(-1.0);
    }
}

impl RequestLabels {
    fn values(&self) -> [&str; 4] {
        let long_running = if self.long_running { "true" } else { "false" };
        [long_running, &self.method, &self.path, self.server]
    }
}
