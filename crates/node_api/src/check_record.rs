//! How health checks went, for `/metrics/slis`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use model::Timestamp;

use crate::views::Views;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Results of the checks, by name.
#[derive(Debug, Default)]
pub struct CheckRecord {
    checks: Mutex<BTreeMap<&'static str, Counts>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    good: u64,
    bad: u64,
    last_was_good: bool,
}

impl CheckRecord {
    /// A check was made.
    pub(crate) fn note(&self, name: &'static str, good: bool) {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = checks.entry(name).or_default();
        counts.last_was_good = good;
        *(if good { &mut counts.good } else { &mut counts.bad }) += 1;
    }

    fn reset(&self) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn text(&self, started_at: Timestamp) -> String {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        if !checks.is_empty() {
            text.push_str(
                "# HELP kubernetes_healthcheck [STABLE] Whether a health check was good last time.\n",
            );
            text.push_str("# TYPE kubernetes_healthcheck gauge\n");
        }
        for (name, counts) in &checks {
            let value = u8::from(counts.last_was_good);
            let _ = writeln!(text, "kubernetes_healthcheck{{name=\"{name}\",type=\"healthz\"}} {value}");
        }
        if !checks.is_empty() {
            text.push_str("# HELP kubernetes_healthchecks_total [STABLE] Health checks by result.\n");
            text.push_str("# TYPE kubernetes_healthchecks_total counter\n");
        }
        for (name, counts) in &checks {
            for (status, count) in [("error", counts.bad), ("success", counts.good)] {
                if count > 0 {
                    let _ = writeln!(
                        text,
                        "kubernetes_healthchecks_total{{name=\"{name}\",status=\"{status}\",type=\"healthz\"}} {count}"
                    );
                }
            }
        }
        let seconds = started_at.as_nanos().div_euclid(1_000_000_000);
        text.push_str("# HELP process_start_time_seconds [ALPHA] When the agent started, in Unix time.\n");
        let _ =
            writeln!(text, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {seconds}");
        text
    }
}

pub(crate) fn routes(views: Views) -> Router {
    Router::new().route("/metrics/slis", any(slis)).with_state(views)
}

async fn slis(State(views): State<Views>, method: Method) -> Response {
    if method == Method::DELETE {
        views.checks.reset();
        return "metrics reset\n".into_response();
    }
    ([(header::CONTENT_TYPE, TEXT)], views.checks.text(views.started_at)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_until_they_are_reset() {
        let record = CheckRecord::default();
        record.note("ping", true);
        record.note("syncloop", true);
        record.note("syncloop", false);
        let text = record.text(Timestamp::from_secs(7));
        for line in [
            "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n",
            "kubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"} 0\n",
            "kubernetes_healthchecks_total{name=\"syncloop\",status=\"error\",type=\"healthz\"} 1\n",
            "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 1\n",
            "process_start_time_seconds 7\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        record.reset();
        assert!(!record.text(Timestamp::from_secs(7)).contains("kubernetes_healthcheck"));
    }
}
