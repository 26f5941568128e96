//! `/runningpods/`: what the runtime runs, wanted or not.

use agent::observation::Observer;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{any, get};
use model::ObservedPod;
use serde_json::{Value, json};

use crate::answers::{disabled, json};

pub(crate) fn routes(observer: Observer) -> Router {
    Router::new()
        .route("/runningpods", get(running_pods))
        .route("/runningpods/", get(running_pods))
        .with_state(observer)
}

/// The same where it is switched off.
pub(crate) fn disabled_routes() -> Router {
    let off = async || disabled("Debug endpoints are disabled.");
    Router::new().route("/runningpods", any(off)).route("/runningpods/", any(off))
}

async fn running_pods(State(observer): State<Observer>) -> Response {
    let mut pods: Vec<_> = observer.all().into_iter().filter(|pod| pod.running().next().is_some()).collect();
    pods.sort_by(|a, b| a.full_name.cmp(&b.full_name).then_with(|| a.uid.cmp(&b.uid)));
    let items: Vec<Value> = pods.iter().map(|pod| item(pod)).collect();
    json(&json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}

/// The little that a runtime knows of a pod.
fn item(pod: &ObservedPod) -> Value {
    let containers: Vec<Value> = (pod.running())
        .map(|container| json!({"name": container.name, "image": container.image_id, "resources": {}}))
        .collect();
    json!({
        "metadata": {
            "name": &pod.full_name.name,
            "namespace": &pod.full_name.namespace,
            "uid": pod.uid.as_str(),
        },
        "spec": {"containers": containers},
        "status": {},
    })
}
