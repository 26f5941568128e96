//! `/healthz` and its parts.

use std::collections::BTreeSet;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;

use crate::answers::not_found;
use crate::check_record::CheckRecord;
use crate::queries;
use crate::views::Views;

/// A check by its name, and what is wrong.
struct Check {
    name: &'static str,
    problem: Option<String>,
}

/// The local health check: that the agent answers.
pub(crate) fn ping_routes(views: Views) -> Router {
    let healthz = async |State(views): State<Views>, RawQuery(query): RawQuery| {
        answer(&[Check { name: "ping", problem: None }], &views.checks, query.as_deref())
    };
    Router::new().route("/healthz", any(healthz)).route("/healthz/ping", any(async || "ok")).with_state(views)
}

pub(crate) fn routes(views: Views) -> Router {
    Router::new().route("/healthz", any(healthz)).route("/healthz/{name}", any(one)).with_state(views)
}

async fn healthz(State(views): State<Views>, RawQuery(query): RawQuery) -> Response {
    answer(&checks(&views), &views.checks, query.as_deref())
}

/// A single check; those are not counted.
async fn one(State(views): State<Views>, Path(name): Path<String>) -> Response {
    let Some(check) = checks(&views).into_iter().find(|check| check.name == name) else {
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

/// All checks in upstream's order. Lines to the log and device plugins have nothing here that could fail alone.
fn checks(views: &Views) -> [Check; 4] {
    [("ping", None), ("log", None), ("syncloop", views.loop_problem()), ("device-plugin", None)]
        .map(|(name, problem)| Check { name, problem })
}

fn answer(checks: &[Check], record: &CheckRecord, query: Option<&str>) -> Response {
    let pairs = queries::pairs(query);
    let excluded: Vec<&str> = queries::all(&pairs, "exclude").collect();
    let mut text = String::new();
    let mut failed = Vec::new();
    for check in checks {
        if excluded.contains(&check.name) {
            text.push_str(&format!("[+]{} excluded: ok\n", check.name));
            continue;
        }
        record.note(check.name, check.problem.is_none());
        match &check.problem {
            None => text.push_str(&format!("[+]{} ok\n", check.name)),
            Some(problem) => {
                // Strangers may read this; the reason is in the log.
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

    async fn ask(problem: Option<&str>, query: &str) -> (u16, String) {
        let check = |name, problem: Option<&str>| Check { name, problem: problem.map(str::to_owned) };
        let checks = [check("ping", None), check("syncloop", problem)];
        let answer = answer(&checks, &CheckRecord::default(), Some(query));
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn checks_are_told_as_upstream_does() {
        let good = |text: &str| (200, text.to_owned());
        assert_eq!(ask(None, "").await, good("ok"));
        assert_eq!(ask(None, "verbose").await, good("[+]ping ok\n[+]syncloop ok\nhealthz check passed\n"));
        let stuck = Some("silent");
        let text = "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n".to_owned();
        assert_eq!(ask(stuck, "").await, (500, text));
        assert_eq!(ask(stuck, "exclude=syncloop").await, good("ok"));
        let verbose = "[+]ping ok\n[+]syncloop excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"a\",\"x\"\nhealthz check passed\n";
        assert_eq!(
            ask(stuck, "verbose=true&exclude=x&exclude=syncloop&exclude=a&exclude=x").await,
            good(verbose)
        );
    }
}
