//! Requests to the node API.

use std::time::Duration;

use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

const LABELS: [&str; 4] = ["long_running", "method", "path", "server_type"];

/// Labels of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLabels {
    pub long_running: bool,
    pub method: String,
    /// First segment of the path.
    pub path: String,
    /// `readwrite` for the main port, `readonly` for the read-only port.
    pub server: &'static str,
}

metrics_group! {
    HttpMetrics {
        requests: Family<Counter, 4> = Family::new(LABELS),
            "kubelet_http_requests_total", "Requests to the node API";
        duration: Family<Histogram, 4> = Family::histograms(LABELS, DEFAULT_BUCKETS),
            "kubelet_http_requests_duration_seconds", "Duration of requests to the node API";
        in_flight: Family<Gauge, 4> = Family::new(LABELS),
            "kubelet_http_inflight_requests", "Requests to the node API in progress";
        websockets: Family<Counter, 1> = Family::new(["subresource"]),
            "kubelet_websocket_streaming_requests_total", "WebSocket requests of exec, attach and port-forward";
    }
}

impl HttpMetrics {
    /// `subresource` is `exec`, `attach` or `portforward`.
    pub fn websocket(&self, subresource: &str) {
        self.websockets.inc([subresource]);
    }

    pub fn came(&self, labels: &RequestLabels) {
        let values = labels.values();
        self.requests.inc(values);
        self.in_flight.get(values).add(1.0);
    }

    /// A request ended.
    pub fn ended(&self, labels: &RequestLabels, took: Duration) {
        let values = labels.values();
        self.duration.observe(values, took);
        self.in_flight.get(values).add(-1.0);
    }
}

impl RequestLabels {
    fn values(&self) -> [&str; 4] {
        let long_running = if self.long_running { "true" } else { "false" };
        [long_running, &self.method, &self.path, self.server]
    }
}
