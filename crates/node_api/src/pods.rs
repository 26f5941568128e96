//! `/pods`.

mod pod_list;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use k8s_openapi::api::core::v1::PodStatus;
use model::Pod;
use serde_json::Value;

use crate::answers::json;
use crate::views::Views;

pub(crate) fn routes(views: Views) -> Router {
    Router::new().route("/pods", get(pods)).route("/pods/", get(pods)).with_state(views)
}

async fn pods(State(views): State<Views>) -> Response {
    match list(&views) {
        Ok(list) => json(&list),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// All pods with their statuses, as a `PodList`.
pub(crate) fn list(views: &Views) -> serde_json::Result<Value> {
    let pods = sorted(views);
    let statuses: Vec<_> = pods.iter().map(|pod| views.statuses.get(&pod.uid)).collect();
    let pairs = pods.iter().zip(&statuses);
    pod_list::pod_list(pairs.map(|(pod, status)| (&**pod, status.as_deref().unwrap_or(&pod.status))))
}

/// One pod as it stands in the list.
pub(crate) fn item(pod: &Pod, status: Option<&PodStatus>) -> serde_json::Result<Value> {
    pod_list::item(pod, status.unwrap_or(&pod.status))
}

/// All pods, by name.
pub(crate) fn sorted(views: &Views) -> Vec<Arc<Pod>> {
    let mut pods = views.desired.all();
    pods.sort_by(|a, b| a.full_name.cmp(&b.full_name).then_with(|| a.uid.cmp(&b.uid)));
    pods
}
