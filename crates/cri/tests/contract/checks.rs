//! One check per promise of the runtime ports. Each check creates its own pods and removes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt;
use model::labels::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID};
use model::{
    ContainerId, ContainerSpec, ContainerState, ContainerStatus, ImageSpec, Mount, PodUid, SandboxId,
    SandboxSpec, SandboxState, Timestamp,
};
use ports::runtime::{Runtime, RuntimeErrorKind};
use tempfile::TempDir;

/// Generous, for real runtimes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A runtime, a local image that contains `sh`, and a folder for logs.
pub(crate) struct RuntimeFixture {
    runtime: Arc<dyn Runtime>,
    image: String,
    folder: TempDir,
}

impl RuntimeFixture {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, image: &str, folder: TempDir) -> Self {
        Self { runtime, image: image.to_owned(), folder }
    }

    /// Returns a pod with a unique UID.
    fn pod(&self) -> SandboxSpec {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let uid = format!("contract-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
        let labels = [(POD_UID, uid.as_str()), (POD_NAME, uid.as_str()), (POD_NAMESPACE, "contract")];
        SandboxSpec {
            name: uid.clone(),
            namespace: "contract".into(),
            uid: uid.clone(),
            hostname: "contract".into(),
            log_directory: self.folder.path().join(&uid).to_string_lossy().into_owned(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..Default::default()
        }
    }

    fn container(&self, pod: &SandboxSpec, script: &str) -> ContainerSpec {
        let mut labels = pod.labels.clone();
        labels.insert(CONTAINER_NAME.into(), "main".into());
        ContainerSpec {
            name: "main".into(),
            image: self.image(),
            command: vec!["sh".into(), "-c".into(), script.into()],
            labels,
            annotations: [("contract".to_owned(), "kept".to_owned())].into(),
            log_path: "main/0.log".into(),
            ..Default::default()
        }
    }

    fn image(&self) -> ImageSpec {
        ImageSpec {
            image: self.image.clone(),
            user_specified_image: self.image.clone(),
            ..Default::default()
        }
    }

    /// Creates a pod and starts its container.
    async fn start(&self, script: &str) -> (SandboxSpec, SandboxId, ContainerId) {
        let pod = self.pod();
        std::fs::create_dir_all(format!("{}/main", pod.log_directory)).unwrap();
        let sandbox = self.runtime.run_sandbox(&pod).await.unwrap();
        let container = self.container(&pod, script);
        let id = self.runtime.create_container(&sandbox, &container, &pod).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        (pod, sandbox, id)
    }

    async fn remove(&self, sandbox: &SandboxId) {
        self.runtime.stop_sandbox(sandbox).await.unwrap();
        self.runtime.remove_sandbox(sandbox).await.unwrap();
    }

    /// Waits until the container has exited.
    async fn wait_until_exited(&self, id: &ContainerId) -> ContainerStatus {
        let exited = async {
            loop {
                let status = self.runtime.container_status(id).await.unwrap();
                if status.state == ContainerState::Exited {
                    return status;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, exited).await.unwrap()
    }
}

fn uid(pod: &SandboxSpec) -> PodUid {
    pod.uid.as_str().into()
}

pub(crate) async fn reports_version_and_conditions(fixture: &RuntimeFixture) {
    let version = fixture.runtime.version().await.unwrap();
    assert!(!version.name.is_empty() && !version.version.is_empty());
    assert_eq!(version.api_version, "v1");
    let conditions = fixture.runtime.conditions().await.unwrap();
    assert!(conditions.runtime.unwrap().status);
    assert!(conditions.network.is_some());
    if let Err(error) = fixture.runtime.cgroup_driver().await {
        assert_eq!(error.kind, RuntimeErrorKind::Unimplemented, "{error}");
    }
}

pub(crate) async fn runs_complete_pod_lifecycle(fixture: &RuntimeFixture) {
    let runtime = &fixture.runtime;
    let mut pod = fixture.pod();
    pod.attempt = 3;
    std::fs::create_dir_all(format!("{}/main", pod.log_directory)).unwrap();
    let sandbox = runtime.run_sandbox(&pod).await.unwrap();
    let status = runtime.sandbox_status(&sandbox).await.unwrap();
    assert_eq!((status.state, status.attempt), (SandboxState::Ready, 3));
    assert!(status.ips.is_some_and(|ips| !ips.is_empty()));

    let mut spec = fixture.container(&pod, "sleep 1000");
    spec.attempt = 2;
    spec.mounts = vec![Mount {
        container_path: "/contract".into(),
        host_path: fixture.folder.path().to_string_lossy().into_owned(),
        ..Default::default()
    }];
    let id = runtime.create_container(&sandbox, &spec, &pod).await.unwrap();
    let created = runtime.container_status(&id).await.unwrap();
    assert_eq!(created.state, ContainerState::Created);
    assert_eq!((created.name.as_str(), created.attempt), ("main", 2));
    assert!(created.started_at.is_zero() && created.finished_at.is_zero());
    assert_eq!(created.annotations["contract"], "kept");
    assert_eq!(created.log_path, format!("{}/main/0.log", pod.log_directory));
    assert!(created.mounts.iter().any(|(inside, _)| inside == "/contract"), "{:?}", created.mounts);

    runtime.start_container(&id).await.unwrap();
    let running = runtime.container_status(&id).await.unwrap();
    assert_eq!(running.state, ContainerState::Running);
    assert!(running.started_at >= created.created_at && running.created_at > Timestamp::ZERO);
    assert!(!running.image_ref.is_empty());
    assert!(runtime.start_container(&id).await.is_err(), "it is already running");

    for _ in 0..2 {
        runtime.stop_container(&id, Duration::from_secs(1)).await.unwrap();
    }
    let exited = runtime.container_status(&id).await.unwrap();
    assert_eq!(exited.state, ContainerState::Exited);
    assert!([137, 143].contains(&exited.exit_code), "{}", exited.exit_code);
    assert!(exited.finished_at >= running.started_at);

    for _ in 0..2 {
        runtime.stop_sandbox(&sandbox).await.unwrap();
    }
    assert_eq!(runtime.sandbox_status(&sandbox).await.unwrap().state, SandboxState::NotReady);
    for _ in 0..2 {
        runtime.remove_container(&id).await.unwrap();
        runtime.remove_sandbox(&sandbox).await.unwrap();
    }
    assert!(runtime.container_status(&id).await.unwrap_err().is_not_found());
    assert!(runtime.sandbox_status(&sandbox).await.unwrap_err().is_not_found());
}

pub(crate) async fn reports_exit_codes(fixture: &RuntimeFixture) {
    for (script, code, reason) in [("exit 0", 0, "Completed"), ("exit 7", 7, "Error")] {
        let (_, sandbox, id) = fixture.start(script).await;
        let status = fixture.wait_until_exited(&id).await;
        assert_eq!((status.exit_code, status.reason.as_str()), (code, reason));
        fixture.remove(&sandbox).await;
    }
}

pub(crate) async fn unknown_ids_are_not_found_but_stop_and_remove_succeed(fixture: &RuntimeFixture) {
    let runtime = &fixture.runtime;
    let (sandbox, container) = (SandboxId::from("no-such-sandbox"), ContainerId::from("no-such-container"));
    runtime.stop_sandbox(&sandbox).await.unwrap();
    runtime.remove_sandbox(&sandbox).await.unwrap();
    runtime.stop_container(&container, Duration::ZERO).await.unwrap();
    runtime.remove_container(&container).await.unwrap();
    assert!(runtime.sandbox_status(&sandbox).await.unwrap_err().is_not_found());
    assert!(runtime.container_status(&container).await.unwrap_err().is_not_found());
    let error = runtime.start_container(&container).await.unwrap_err();
    assert!(error.is_not_found() && error.operation == "start_container", "{error}");
    assert!(runtime.list_sandboxes(Some(&"no-such-pod".into())).await.unwrap().is_empty());
    assert!(runtime.list_containers(Some(&"no-such-pod".into())).await.unwrap().is_empty());
}

pub(crate) async fn rejects_duplicate_attempts(fixture: &RuntimeFixture) {
    let runtime = &fixture.runtime;
    let (pod, sandbox, id) = fixture.start("sleep 1000").await;
    assert!(runtime.run_sandbox(&pod).await.is_err());
    let duplicate = runtime.create_container(&sandbox, &fixture.container(&pod, "sleep 1000"), &pod).await;
    assert!(duplicate.is_err());
    let listed = runtime.list_sandboxes(Some(&uid(&pod))).await.unwrap();
    assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&sandbox]);
    let listed = runtime.list_containers(Some(&uid(&pod))).await.unwrap();
    assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&id]);
    fixture.remove(&sandbox).await;
}

pub(crate) async fn lists_one_pod_or_all_pods(fixture: &RuntimeFixture) {
    let runtime = &fixture.runtime;
    let (one, one_sandbox, one_container) = fixture.start("sleep 1000").await;
    let (_, other_sandbox, other_container) = fixture.start("sleep 1000").await;
    let foreign =
        runtime.run_sandbox(&SandboxSpec { labels: Default::default(), ..fixture.pod() }).await.unwrap();

    let sandboxes = runtime.list_sandboxes(None).await.unwrap();
    let ids = sandboxes.iter().map(|sandbox| &sandbox.id).collect::<Vec<_>>();
    assert!(ids.contains(&&one_sandbox) && ids.contains(&&other_sandbox) && !ids.contains(&&foreign));
    let containers = runtime.list_containers(None).await.unwrap();
    let ids = containers.iter().map(|container| &container.id).collect::<Vec<_>>();
    assert!(ids.contains(&&one_container) && ids.contains(&&other_container));

    let of_one = runtime.list_sandboxes(Some(&uid(&one))).await.unwrap();
    let [summary] = of_one.as_slice() else { panic!("{of_one:?}") };
    assert_eq!((summary.pod_uid.as_str(), summary.pod_namespace.as_str()), (one.uid.as_str(), "contract"));
    assert_eq!((summary.pod_name.as_str(), summary.state), (one.name.as_str(), SandboxState::Ready));
    let of_one = runtime.list_containers(Some(&uid(&one))).await.unwrap();
    let [summary] = of_one.as_slice() else { panic!("{of_one:?}") };
    assert_eq!((&summary.id, &summary.sandbox_id), (&one_container, &one_sandbox));
    assert_eq!((summary.name.as_str(), summary.state), ("main", ContainerState::Running));
    for sandbox in [one_sandbox, other_sandbox, foreign] {
        fixture.remove(&sandbox).await;
    }
}

pub(crate) async fn finds_images_by_name_and_id(fixture: &RuntimeFixture) {
    let runtime = &fixture.runtime;
    let found = runtime.image_status(&fixture.image()).await.unwrap().unwrap();
    assert!(!found.id.is_empty() && found.size > 0);
    let by_id = ImageSpec { image: found.id.clone(), ..Default::default() };
    assert_eq!(runtime.image_status(&by_id).await.unwrap().unwrap().id, found.id);
    assert!(runtime.list_images().await.unwrap().iter().any(|image| image.id == found.id));
    let absent = ImageSpec { image: "podward.test/absent:1".into(), ..Default::default() };
    assert_eq!(runtime.image_status(&absent).await.unwrap(), None);
    runtime.remove_image(&absent).await.unwrap();
}

pub(crate) async fn events_contain_pod_uid(fixture: &RuntimeFixture) {
    let mut events = match fixture.runtime.events().await {
        Ok(events) => events,
        Err(error) => {
            assert_eq!(error.kind, RuntimeErrorKind::Unimplemented, "{error}");
            return;
        }
    };
    let (pod, sandbox, id) = fixture.start("sleep 1000").await;
    let seen = async {
        while let Some(event) = events.next().await {
            let event = match event {
                Err(error) if error.kind == RuntimeErrorKind::Unimplemented => return,
                event => event.unwrap(),
            };
            if event.container_id == id {
                assert_eq!(event.pod_uid, Some(uid(&pod)));
                return;
            }
        }
        panic!("the stream ended without the event");
    };
    tokio::time::timeout(TIMEOUT, seen).await.unwrap();
    fixture.remove(&sandbox).await;
}

pub(crate) async fn reopens_logs_of_running_containers_only(fixture: &RuntimeFixture) {
    let (_, sandbox, id) = fixture.start("sleep 1000").await;
    fixture.runtime.reopen_container_log(&id).await.unwrap();
    fixture.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    assert!(fixture.runtime.reopen_container_log(&id).await.is_err());
    fixture.remove(&sandbox).await;
}
