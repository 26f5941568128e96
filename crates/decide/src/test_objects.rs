//! Small objects for the unit tests of this crate.

use model::{
    ContainerState, ContainerStatus, Moment, NamespaceMode, Observation, ObservedPod, Pod, PodFullName,
    PodSource, SandboxState, SandboxStatus, Timestamp, WorkerPhase, WorkerPodKind, WorkerProgress,
    WorkerView, labels,
};

#[expect(clippy::needless_pass_by_value, reason = "tests write the spec in place")]
pub(crate) fn pod(spec: serde_json::Value) -> Pod {
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": spec,
    });
    Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::File).unwrap()
}

/// A worker of an API pod that has completed a sync.
pub(crate) fn worker_view(uid: &str, phase: WorkerPhase) -> WorkerView {
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

pub(crate) fn sandbox(id: &str, attempt: u32, state: SandboxState) -> SandboxStatus {
    SandboxStatus {
        id: id.into(),
        attempt,
        state,
        created_at: Timestamp::from_secs(i64::from(attempt) + 1),
        ips: Some(vec!["10.0.0.7".into()]),
        network: NamespaceMode::Pod,
        runtime_handler: String::new(),
    }
}

pub(crate) fn container(id: &str, name: &str, attempt: u32, state: ContainerState) -> ContainerStatus {
    let ran = matches!(state, ContainerState::Running | ContainerState::Exited);
    ContainerStatus {
        id: id.into(),
        sandbox_id: "s".into(),
        name: name.into(),
        attempt,
        state,
        created_at: Timestamp::from_secs(i64::from(attempt) * 10 + 1),
        started_at: if ran { Timestamp::from_secs(i64::from(attempt) * 10 + 2) } else { Timestamp::ZERO },
        finished_at: if state == ContainerState::Exited {
            Timestamp::from_secs(i64::from(attempt) * 10 + 3)
        } else {
            Timestamp::ZERO
        },
        exit_code: 0,
        image: "i".into(),
        image_ref: "i@sha256:1".into(),
        image_id: "sha256:1".into(),
        image_handler: String::new(),
        reason: String::new(),
        message: String::new(),
        annotations: [(labels::RESTART_COUNT.to_owned(), attempt.to_string())].into(),
        log_path: String::new(),
        mounts: Vec::new(),
        image_mounts: Vec::new(),
        resources: None,
        pid: None,
        user: None,
        stop_signal: None,
    }
}

pub(crate) fn observed(sandboxes: Vec<SandboxStatus>, containers: Vec<ContainerStatus>) -> ObservedPod {
    ObservedPod {
        uid: "u".into(),
        full_name: PodFullName { namespace: "default".into(), name: "p".into() },
        sandboxes,
        containers,
        moment: Moment::START,
        observation: Observation::Complete,
    }
}
