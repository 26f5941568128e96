//! Results of the health checks, for `/metrics/slis`.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use model::Timestamp;
use model::metric_family::MetricKind;
use model::metrics_text::{Dialect, FamilyHeader, Format, write_family};
use parking_lot::Mutex;

use crate::published_state::PublishedState;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const LAST_RESULTS: FamilyHeader<'_> = FamilyHeader {
    name: "kubernetes_healthcheck",
    help: "[STABLE] Last result of a health check: 1 is healthy.",
    kind: MetricKind::Gauge,
};
const RESULT_COUNTS: FamilyHeader<'_> = FamilyHeader {
    name: "kubernetes_healthchecks_total",
    help: "[STABLE] Health checks by result.",
    kind: MetricKind::Counter,
};
const START_TIME: FamilyHeader<'_> = FamilyHeader {
    name: "process_start_time_seconds",
    help: "[ALPHA] Start time of the agent, in Unix time.",
    kind: MetricKind::Gauge,
};

/// Results by the name of the check.
#[derive(Debug, Default)]
pub struct HealthCheckMetrics {
    checks: Mutex<BTreeMap<&'static str, CheckResults>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CheckResults {
    succeeded: u64,
    failed: u64,
    last_succeeded: bool,
}

impl HealthCheckMetrics {
    pub(crate) fn record(&self, name: &'static str, succeeded: bool) {
        let mut checks = self.checks.lock();
        let results = checks.entry(name).or_default();
        results.last_succeeded = succeeded;
        *(if succeeded { &mut results.succeeded } else { &mut results.failed }) += 1;
    }

    fn reset(&self) {
        self.checks.lock().clear();
    }

    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    fn text(&self, started_at: Timestamp) -> String {
        let checks = self.checks.lock().clone();
        let style = (Format::Text, Dialect::Plain);
        let mut page = String::new();
        write_family(&mut page, style, LAST_RESULTS, |samples| {
            for (name, results) in &checks {
                let labels = [("name", *name), ("type", "healthz")];
                samples.add("", labels, f64::from(u8::from(results.last_succeeded)));
            }
        });
        write_family(&mut page, style, RESULT_COUNTS, |samples| {
            for (name, results) in &checks {
                for (status, count) in [("error", results.failed), ("success", results.succeeded)] {
                    if count > 0 {
                        let labels = [("name", *name), ("status", status), ("type", "healthz")];
                        samples.add("", labels, count as f64);
                    }
                }
            }
        });
        write_family(&mut page, style, START_TIME, |samples| {
            let seconds = started_at.as_nanos().div_euclid(1_000_000_000) as f64;
            samples.add("", [], seconds);
        });
        page
    }
}

pub(crate) fn routes(published: PublishedState) -> Router {
    Router::new().route("/metrics/slis", any(slis)).with_state(published)
}

async fn slis(State(published): State<PublishedState>, method: Method) -> Response {
    if method == Method::DELETE {
        published.checks.reset();
        return "metrics reset\n".into_response();
    }
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], published.checks.text(published.started_at)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_check_results_until_reset() {
        let metrics = HealthCheckMetrics::default();
        metrics.record("ping", true);
        metrics.record("syncloop", true);
        metrics.record("syncloop", false);
        let text = metrics.text(Timestamp::from_secs(7));
        for line in [
            "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n",
            "kubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"} 0\n",
            "kubernetes_healthchecks_total{name=\"syncloop\",status=\"error\",type=\"healthz\"} 1\n",
            "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 1\n",
            "process_start_time_seconds 7\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        metrics.reset();
        assert!(!metrics.text(Timestamp::from_secs(7)).contains("kubernetes_healthcheck"));
    }
}
