//! `/healthz` and its parts.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::views::Views;

/// Paths that only tell that the agent answers.
pub(crate) fn ping_routes() -> Router {
    Router::new().route("/healthz", get(ok)).route("/healthz/ping", get(ok))
}

pub(crate) fn routes(views: Views) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/healthz/ping", get(ok))
        .route("/healthz/log", get(ok))
        .route("/healthz/syncloop", get(sync_loop))
        .with_state(views)
}

async fn ok() -> &'static str {
    "ok"
}

async fn healthz(State(views): State<Views>) -> Response {
    match views.loop_problem() {
        None => "ok".into_response(),
        Some(problem) => {
            let text =
                format!("[+]ping ok\n[+]log ok\n[-]syncloop failed: {problem}\nhealthz check failed\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

async fn sync_loop(State(views): State<Views>) -> Response {
    match views.loop_problem() {
        None => "ok".into_response(),
        Some(problem) => {
            let text = format!("internal server error: {problem}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}
