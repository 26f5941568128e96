//! `/healthz` and its parts.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::views::Views;

pub(crate) async fn ok() -> &'static str {
    "ok"
}

pub(crate) async fn healthz(State(views): State<Views>) -> Response {
    match views.loop_problem() {
        None => "ok".into_response(),
        Some(problem) => {
            let text =
                format!("[+]ping ok\n[+]log ok\n[-]syncloop failed: {problem}\nhealthz check failed\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

pub(crate) async fn sync_loop(State(views): State<Views>) -> Response {
    match views.loop_problem() {
        None => "ok".into_response(),
        Some(problem) => {
            let text = format!("internal server error: {problem}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}
