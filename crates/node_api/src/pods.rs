//! `/pods`.

mod pod_list;

use std::sync::Arc;

use agent::pipeline::cached_status::CachedStatus;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use model::Pod;
use serde_json::Value;

use crate::published_state::PublishedState;

pub(crate) fn routes(published: PublishedState) -> Router {
    Router::new().route("/pods", get(pods)).route("/pods/", get(pods)).with_state(published)
}

async fn pods(State(published): State<PublishedState>) -> Response {
    list(&published)
}

/// A `PodList` of all pods with their statuses. It is serialized while it is sent, because the complete text takes many
/// times the memory of the pods.
pub(crate) fn list(published: &PublishedState) -> Response {
    let pods = sorted(published).into_iter().map(|pod| {
        let status = published.statuses.get(&pod.uid);
        (pod, status)
    });
    let chunks = pod_list::chunks(pods.collect::<Vec<_>>());
    let body = Body::from_stream(futures::stream::iter(chunks));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// One item of the list.
pub(crate) fn item(pod: &Pod, status: Option<&CachedStatus>) -> serde_json::Result<Value> {
    pod_list::item(pod, status)
}

/// All desired pods, sorted by namespace and name.
pub(crate) fn sorted(published: &PublishedState) -> Vec<Arc<Pod>> {
    let mut pods = published.desired.all();
    pods.sort_by(|a, b| a.full_name.cmp(&b.full_name).then_with(|| a.uid.cmp(&b.uid)));
    pods
}
