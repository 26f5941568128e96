//! `/pods`.

mod pod_list;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use model::Pod;
use serde_json::Value;

use crate::views::Views;
use agent::kept_status::KeptStatus;

pub(crate) fn routes(views: Views) -> Router {
    Router::new().route("/pods", get(pods)).route("/pods/", get(pods)).with_state(views)
}

async fn pods(State(views): State<Views>) -> Response {
    list(&views)
}

/// All pods with their statuses, as a `PodList`. It is written while it is sent: as a whole it would take many times the
/// memory of the pods themselves.
pub(crate) fn list(views: &Views) -> Response {
    let pods = sorted(views).into_iter().map(|pod| {
        let status = views.statuses.get(&pod.uid);
        (pod, status)
    });
    let pieces = pod_list::pieces(pods.collect::<Vec<_>>());
    let body = Body::from_stream(futures::stream::iter(pieces));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// One pod as it stands in the list.
pub(crate) fn item(pod: &Pod, status: Option<&KeptStatus>) -> serde_json::Result<Value> {
    pod_list::item(pod, status)
}

/// All pods, by name.
pub(crate) fn sorted(views: &Views) -> Vec<Arc<Pod>> {
    let mut pods = views.desired.all();
    pods.sort_by(|a, b| a.full_name.cmp(&b.full_name).then_with(|| a.uid.cmp(&b.uid)));
    pods
}
