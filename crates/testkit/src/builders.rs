//! Model values for tests. A test overrides the fields that matter with struct update syntax.

use model::{Pod, PodFullName, PodSource, WorkerPhase, WorkerPodKind, WorkerProgress, WorkerView};
use serde_json::{Value, json};

/// A pod in namespace `default` whose UID is its name.
#[must_use]
pub fn pod(name: &str, source: PodSource, spec: Value) -> Pod {
    let mut object = json!({"metadata": {"name": name, "namespace": "default", "uid": name}});
    object["spec"] = spec;
    parse_pod(object, source)
}

#[must_use]
#[expect(clippy::expect_used, reason = "a test fails by panicking")]
pub fn parse_pod(object: Value, source: PodSource) -> Pod {
    let object = serde_json::from_value(object).expect("the object has the fields of a pod");
    Pod::from_object(object, source).expect("the pod has a name, a UID and a spec")
}

/// A view of a successfully synced API pod in namespace `default`, named like its UID.
#[must_use]
pub fn worker_view(uid: &str, phase: WorkerPhase) -> WorkerView {
    WorkerView {
        uid: uid.into(),
        full_name: PodFullName { namespace: "default".into(), name: uid.into() },
        phase,
        pod_kind: WorkerPodKind::ApiPod,
        progress: WorkerProgress::SyncedOnce,
        restart_requested: false,
        problems: Default::default(),
        last_error: None,
        rejection: None,
    }
}
