//! `/runningpods/`: the pods that the runtime runs, desired or not.

use agent::pipeline::observation::Observer;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{any, get};
use model::{ObservedPod, SandboxState};
use serde_json::{Value, json};

use crate::responses::{DEBUGGING_DISABLED, disabled, json};

pub(crate) fn routes(observer: Observer) -> Router {
    Router::new()
        .route("/runningpods", get(running_pods))
        .route("/runningpods/", get(running_pods))
        .with_state(observer)
}

/// The same paths when debugging is switched off.
pub(crate) fn disabled_routes() -> Router {
    let off = async || disabled(DEBUGGING_DISABLED);
    Router::new().route("/runningpods", any(off)).route("/runningpods/", any(off))
}

async fn running_pods(State(observer): State<Observer>) -> Response {
    let mut pods: Vec<_> = observer.all().into_iter().filter(|pod| is_listed(pod)).collect();
    pods.sort_by(|a, b| a.full_name.cmp(&b.full_name).then_with(|| a.uid.cmp(&b.uid)));
    let items: Vec<Value> = pods.iter().map(|pod| item(pod)).collect();
    json(&json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}

/// A pod is listed while a container runs or its sandbox is ready.
fn is_listed(pod: &ObservedPod) -> bool {
    pod.running().next().is_some() || pod.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
}

/// The fields that the runtime reports.
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

#[cfg(test)]
mod tests {
    use model::{Moment, NamespaceMode, PodFullName, SandboxStatus, Timestamp};

    use super::*;

    #[test]
    fn lists_pod_until_sandbox_stops() {
        let full_name = PodFullName { namespace: "default".into(), name: "web".into() };
        let mut pod = ObservedPod::absent("u".into(), full_name, Moment::START);
        assert!(!is_listed(&pod));
        pod.sandboxes.push(SandboxStatus {
            id: "s".into(),
            attempt: 0,
            state: SandboxState::Ready,
            created_at: Timestamp::ZERO,
            ips: None,
            network: NamespaceMode::Pod,
            runtime_handler: String::new(),
        });
        assert!(is_listed(&pod));
        assert_eq!(item(&pod)["spec"]["containers"], json!([]));
        pod.sandboxes[0].state = SandboxState::NotReady;
        assert!(!is_listed(&pod));
    }
}
