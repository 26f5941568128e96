//! `/healthz` and its checks.

use std::collections::BTreeSet;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;

use crate::health_check_metrics::HealthCheckMetrics;
use crate::published_state::PublishedState;
use crate::queries;
use crate::responses::not_found;

struct Check {
    name: &'static str,
    /// `None` when the check passed.
    problem: Option<String>,
}

/// The paths of the loopback health check, which only tests that the agent responds.
pub(crate) fn ping_routes(published: PublishedState) -> Router {
    let healthz = async |State(published): State<PublishedState>, RawQuery(query): RawQuery| {
        respond(&[Check { name: "ping", problem: None }], &published.checks, query.as_deref())
    };
    Router::new()
        .route("/healthz", any(healthz))
        .route("/healthz/ping", any(async || "ok"))
        .with_state(published)
}

pub(crate) fn routes(published: PublishedState) -> Router {
    Router::new()
        .route("/healthz", any(healthz))
        .route("/healthz/{name}", any(single_check))
        .with_state(published)
}

async fn healthz(State(published): State<PublishedState>, RawQuery(query): RawQuery) -> Response {
    respond(&checks(&published), &published.checks, query.as_deref())
}

/// A single check. Requests for it do not count in `/metrics/slis`.
async fn single_check(State(published): State<PublishedState>, Path(name): Path<String>) -> Response {
    let Some(check) = checks(&published).into_iter().find(|check| check.name == name) else {
        return not_found().await;
    };
    match check.problem {
        None => "ok".into_response(),
        Some(problem) => {
            let text = format!("internal server error: {problem}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

/// All checks in upstream's order. `log` exists only for compatibility and always passes.
fn checks(published: &PublishedState) -> [Check; 4] {
    let device_plugin = published.devices.registration_problem();
    [
        ("ping", None),
        ("log", None),
        ("syncloop", published.sync_loop_problem()),
        ("device-plugin", device_plugin),
    ]
    .map(|(name, problem)| Check { name, problem })
}

fn respond(checks: &[Check], metrics: &HealthCheckMetrics, query: Option<&str>) -> Response {
    let pairs = queries::pairs(query);
    let excluded: Vec<&str> = queries::all(&pairs, "exclude").collect();
    let mut text = String::new();
    let mut failed = Vec::new();
    for check in checks {
        if excluded.contains(&check.name) {
            text.push_str(&format!("[+]{} excluded: ok\n", check.name));
            continue;
        }
        metrics.record(check.name, check.problem.is_none());
        match &check.problem {
            None => text.push_str(&format!("[+]{} ok\n", check.name)),
            Some(problem) => {
                // Anonymous clients may read this; the log has the reason.
                text.push_str(&format!("[-]{} failed: reason withheld\n", check.name));
                failed.push(format!("{}: {problem}", check.name));
            }
        }
    }
    let unknown: BTreeSet<&str> =
        excluded.iter().copied().filter(|name| !checks.iter().any(|check| check.name == *name)).collect();
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    let plain =
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    if !failed.is_empty() {
        tracing::warn!(checks = failed.join("; "), "health checks failed");
        text.push_str("healthz check failed\n");
        return (StatusCode::INTERNAL_SERVER_ERROR, plain, text).into_response();
    }
    if pairs.iter().any(|(name, _)| name == "verbose") {
        text.push_str("healthz check passed\n");
        return (plain, text).into_response();
    }
    (plain, "ok").into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn get(problem: Option<&str>, query: &str) -> (u16, String) {
        let check = |name, problem: Option<&str>| Check { name, problem: problem.map(str::to_owned) };
        let checks = [check("ping", None), check("syncloop", problem)];
        let response = respond(&checks, &HealthCheckMetrics::default(), Some(query));
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn formats_checks_as_upstream() {
        let good = |text: &str| (200, text.to_owned());
        assert_eq!(get(None, "").await, good("ok"));
        assert_eq!(get(None, "verbose").await, good("[+]ping ok\n[+]syncloop ok\nhealthz check passed\n"));
        let stuck = Some("silent");
        let text = "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n".to_owned();
        assert_eq!(get(stuck, "").await, (500, text));
        assert_eq!(get(stuck, "exclude=syncloop").await, good("ok"));
        let verbose = "[+]ping ok\n[+]syncloop excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"a\",\"x\"\nhealthz check passed\n";
        assert_eq!(
            get(stuck, "verbose=true&exclude=x&exclude=syncloop&exclude=a&exclude=x").await,
            good(verbose)
        );
    }
}
