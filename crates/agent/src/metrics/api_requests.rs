//! Requests to the API server.

use std::time::Duration;

use ports::telemetry::request_meter::{RequestMeter, SentRequest};

use super::series::{Counter, Family, Histogram};

const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const LOOKUP_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0];
const BYTES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

metrics_group! {
    ApiMetrics {
        requests: Family<Counter, 3> = Family::new(["code", "host", "method"]),
            "rest_client_requests_total", "Answers of the API server by code; <error> for none";
        duration: Family<Histogram, 2> = Family::histograms(["host", "verb"], SECONDS),
            "rest_client_request_duration_seconds",
            "Time of a request with its waiting and its repetitions, watches excepted";
        rate_limiter: Family<Histogram, 2> = Family::histograms(["host", "verb"], SECONDS),
            "rest_client_rate_limiter_duration_seconds", "Time that a request waited for its turn";
        retries: Family<Counter, 3> = Family::new(["code", "host", "verb"]),
            "rest_client_request_retries_total", "Requests sent again because the server asked for it";
        size: Family<Histogram, 2> = Family::histograms(["host", "verb"], BYTES),
            "rest_client_request_size_bytes", "Bytes that a request carries";
        answer_size: Family<Histogram, 2> = Family::histograms(["host", "verb"], BYTES),
            "rest_client_response_size_bytes", "Bytes of an answer, watches excepted";
        lookup: Family<Histogram, 1> = Family::histograms(["host"], LOOKUP_SECONDS),
            "rest_client_dns_resolution_duration_seconds", "Time of looking up the server's name";
    }
}

impl RequestMeter for ApiMetrics {
    fn answered(&self, request: SentRequest<'_>, code: Option<u16>) {
        let code = code.map_or("<error>".to_owned(), |code| code.to_string());
        self.requests.inc([&code, request.host, request.method]);
    }

    fn ended(&self, request: SentRequest<'_>, took: Duration, bytes: u64) {
        let labels = [request.host, request.method];
        self.duration.observe(labels, took);
        self.size.get(labels).observe(bytes as f64);
    }

    fn received(&self, request: SentRequest<'_>, bytes: u64) {
        self.answer_size.get([request.host, request.method]).observe(bytes as f64);
    }

    fn resolved(&self, host: &str, took: Duration) {
        self.lookup.observe([host], took);
    }

    fn waited(&self, request: SentRequest<'_>, took: Duration) {
        self.rate_limiter.observe([request.host, request.method], took);
    }

    fn repeated(&self, request: SentRequest<'_>, code: u16) {
        self.retries.inc([&code.to_string(), request.host, request.method]);
    }
}
