//! One check per promise. Each makes pods of its own and removes them.

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

/// How long a real runtime may take for what the fake does at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime, an image with `sh` that is on its disk, and a folder for logs.
pub(crate) struct Stage {
    runtime: Arc<dyn Runtime>,
    image: String,
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new(runtime: Arc<dyn Runtime>, image: &str, folder: TempDir) -> Self {
        Self { runtime, image: image.to_owned(), folder }
    }

    /// A pod that nobody had before.
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

    /// A pod with one container that was started.
    async fn started(&self, script: &str) -> (SandboxSpec, SandboxId, ContainerId) {
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

    /// Waits for the end of a container that ends by itself.
    async fn exited(&self, id: &ContainerId) -> ContainerStatus {
        let ending = async {
            loop {
                let status = self.runtime.container_status(id).await.unwrap();
                if status.state == ContainerState::Exited {
                    return status;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, ending).await.unwrap()
    }
}

fn uid(pod: &SandboxSpec) -> PodUid {
    pod.uid.as_str().into()
}

pub(crate) async fn tells_who_it_is_and_whether_it_is_ready(stage: &Stage) {
    let version = stage.runtime.version().await.unwrap();
    assert!(!version.name.is_empty() && !version.version.is_empty());
    assert_eq!(version.api_version, "v1");
    let conditions = stage.runtime.conditions().await.unwrap();
    assert!(conditions.runtime.unwrap().status);
    assert!(conditions.network.is_some());
    if let Err(error) = stage.runtime.cgroup_driver().await {
        assert_eq!(error.kind, RuntimeErrorKind::Unimplemented, "{error}");
    }
}

pub(crate) async fn a_pod_lives_and_dies(stage: &Stage) {
    let runtime = &stage.runtime;
    let mut pod = stage.pod();
    pod.attempt = 3;
    std::fs::create_dir_all(format!("{}/main", pod.log_directory)).unwrap();
    let sandbox = runtime.run_sandbox(&pod).await.unwrap();
    let status = runtime.sandbox_status(&sandbox).await.unwrap();
    assert_eq!((status.state, status.attempt), (SandboxState::Ready, 3));
    assert!(status.ips.is_some_and(|ips| !ips.is_empty()));

    let mut spec = stage.container(&pod, "sleep 1000");
    spec.attempt = 2;
    spec.mounts = vec![Mount {
        container_path: "/contract".into(),
        host_path: stage.folder.path().to_string_lossy().into_owned(),
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
    assert!(runtime.start_container(&id).await.is_err(), "it runs already");

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

pub(crate) async fn exit_codes_are_kept(stage: &Stage) {
    for (script, code, reason) in [("exit 0", 0, "Completed"), ("exit 7", 7, "Error")] {
        let (_, sandbox, id) = stage.started(script).await;
        let status = stage.exited(&id).await;
        assert_eq!((status.exit_code, status.reason.as_str()), (code, reason));
        stage.remove(&sandbox).await;
    }
}

pub(crate) async fn what_is_unknown_is_not_found_but_may_be_ended(stage: &Stage) {
    let runtime = &stage.runtime;
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

pub(crate) async fn an_attempt_is_made_once(stage: &Stage) {
    let runtime = &stage.runtime;
    let (pod, sandbox, id) = stage.started("sleep 1000").await;
    assert!(runtime.run_sandbox(&pod).await.is_err());
    let again = runtime.create_container(&sandbox, &stage.container(&pod, "sleep 1000"), &pod).await;
    assert!(again.is_err());
    let listed = runtime.list_sandboxes(Some(&uid(&pod))).await.unwrap();
    assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&sandbox]);
    let listed = runtime.list_containers(Some(&uid(&pod))).await.unwrap();
    assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&id]);
    stage.remove(&sandbox).await;
}

pub(crate) async fn lists_hold_one_pod_or_all_of_kubernetes(stage: &Stage) {
    let runtime = &stage.runtime;
    let (one, one_sandbox, one_container) = stage.started("sleep 1000").await;
    let (_, other_sandbox, other_container) = stage.started("sleep 1000").await;
    let foreign =
        runtime.run_sandbox(&SandboxSpec { labels: Default::default(), ..stage.pod() }).await.unwrap();

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
        stage.remove(&sandbox).await;
    }
}

pub(crate) async fn images_are_found_by_name_and_id(stage: &Stage) {
    let runtime = &stage.runtime;
    let found = runtime.image_status(&stage.image()).await.unwrap().unwrap();
    assert!(!found.id.is_empty() && found.size > 0);
    let by_id = ImageSpec { image: found.id.clone(), ..Default::default() };
    assert_eq!(runtime.image_status(&by_id).await.unwrap().unwrap().id, found.id);
    assert!(runtime.list_images().await.unwrap().iter().any(|image| image.id == found.id));
    let absent = ImageSpec { image: "podward.test/absent:1".into(), ..Default::default() };
    assert_eq!(runtime.image_status(&absent).await.unwrap(), None);
    runtime.remove_image(&absent).await.unwrap();
}

pub(crate) async fn events_name_the_pod(stage: &Stage) {
    let mut events = match stage.runtime.events().await {
        Ok(events) => events,
        Err(error) => {
            assert_eq!(error.kind, RuntimeErrorKind::Unimplemented, "{error}");
            return;
        }
    };
    let (pod, sandbox, id) = stage.started("sleep 1000").await;
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
    tokio::time::timeout(PATIENCE, seen).await.unwrap();
    stage.remove(&sandbox).await;
}

pub(crate) async fn logs_of_living_containers_reopen(stage: &Stage) {
    let (_, sandbox, id) = stage.started("sleep 1000").await;
    stage.runtime.reopen_container_log(&id).await.unwrap();
    stage.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    assert!(stage.runtime.reopen_container_log(&id).await.is_err());
    stage.remove(&sandbox).await;
}
