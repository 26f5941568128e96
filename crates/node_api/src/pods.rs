//! `/pods`.

mod pod_list;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::answers::json;
use crate::views::Views;

pub(crate) fn routes(views: Views) -> Router {
    Router::new().route("/pods", get(pods)).route("/pods/", get(pods)).with_state(views)
}

async fn pods(State(views): State<Views>) -> Response {
    let mut pods = views.desired.all();
    pods.sort_by(|a, b| a.full_name.cmp(&b.full_name).then_with(|| a.uid.cmp(&b.uid)));
    let statuses: Vec<_> = pods.iter().map(|pod| views.statuses.get(&pod.uid)).collect();
    let pairs = pods.iter().zip(&statuses);
    let list =
        pod_list::pod_list(pairs.map(|(pod, status)| (&**pod, status.as_deref().unwrap_or(&pod.status))));
    match list {
        Ok(list) => json(&list),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
