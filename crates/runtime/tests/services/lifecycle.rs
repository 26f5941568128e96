//! Sandboxes and containers from their creation to their removal.

use std::fs;
use std::path::Path;

use cri::v1::*;
use tonic::Code;

use crate::node::{IMAGE, Node, log_text, until};

#[tokio::test]
#[ignore = "needs root"]
async fn container_runs_and_nothing_is_left_after_its_removal() {
    let node = Node::start().await;
    let config = node.sandbox_config("web");
    let sandbox = node.run_sandbox(&config).await;
    let status = node.sandbox_status(&sandbox).await;
    assert_eq!(status.state(), PodSandboxState::SandboxReady);
    assert_eq!((status.metadata, status.annotations), (config.metadata.clone(), config.annotations.clone()));
    let container = node.container_config("main", "echo out; echo err >&2; exit 3");
    let id = node.create(&sandbox, &container).await.unwrap();
    let created = node.status(&id).await;
    assert_eq!(created.state(), ContainerState::ContainerCreated);
    assert_eq!((created.started_at, created.finished_at), (0, 0));
    node.start_container(&id).await.unwrap();
    let status = node.exited(&id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (3, "Error"));
    assert!(status.created_at > 0 && status.started_at > 0 && status.finished_at >= status.started_at);
    assert_eq!(status.image.unwrap().image, IMAGE);
    assert_eq!(log_text(Path::new(&status.log_path)), "out\nE err\n");
    node.remove_container(&id).await;
    assert!(Path::new(&status.log_path).exists(), "the log belongs to the caller");
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn removing_a_sandbox_ends_its_running_containers() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let other = node.run_sandbox(&node.sandbox_config("b")).await;
    let id = node.run(&sandbox, &node.container_config("main", "sleep 1000")).await;
    let created = node.create(&sandbox, &node.container_config("second", "sleep 1000")).await.unwrap();
    let survivor = node.run(&other, &node.container_config("main", "sleep 1000")).await;
    node.stop_sandbox(&sandbox).await;
    assert_eq!(node.sandbox_status(&sandbox).await.state(), PodSandboxState::SandboxNotready);
    assert_eq!(node.status(&id).await.exit_code, 137);
    assert!(node.start_container(&created).await.is_err());
    assert_eq!(node.status(&created).await.exit_code, 128);
    node.remove_sandbox(&sandbox).await;
    assert_eq!(node.status(&survivor).await.state(), ContainerState::ContainerRunning);
    node.remove_sandbox(&other).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn stopping_and_removing_are_idempotent() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.run(&sandbox, &node.container_config("main", "sleep 1000")).await;
    for _ in 0..2 {
        node.stop_container(&id, 0).await;
        node.remove_container(&id).await;
        node.stop_sandbox(&sandbox).await;
        node.remove_sandbox(&sandbox).await;
    }
    let missing = "f".repeat(64);
    node.stop_container(&missing, 0).await;
    node.remove_sandbox(&missing).await;
    let request = ContainerStatusRequest { container_id: id, verbose: false };
    assert_eq!(node.runtime().container_status(request).await.unwrap_err().code(), Code::NotFound);
    let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox, verbose: false };
    assert_eq!(node.runtime().pod_sandbox_status(request).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
#[ignore = "needs root"]
async fn names_are_reserved_until_removal() {
    let node = Node::start().await;
    let config = node.sandbox_config("a");
    let sandbox = node.run_sandbox(&config).await;
    let again = RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
    assert!(node.runtime().run_pod_sandbox(again).await.unwrap_err().message().contains("reserved"));
    let container = node.container_config("main", "true");
    let broken = ContainerConfig { working_dir: "relative".into(), ..container.clone() };
    assert!(node.create(&sandbox, &broken).await.is_err());
    let id = node.create(&sandbox, &container).await.unwrap();
    assert!(node.create(&sandbox, &container).await.unwrap_err().message().contains("reserved"));
    node.remove_container(&id).await;
    node.create(&sandbox, &container).await.unwrap();
    node.remove_sandbox(&sandbox).await;
    let sandbox = node.run_sandbox(&config).await;
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn program_that_cannot_start_ends_the_container_with_128() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let config =
        ContainerConfig { command: vec!["no-such-program".into()], ..node.container_config("main", "") };
    let id = node.create(&sandbox, &config).await.unwrap();
    let error = node.start_container(&id).await.unwrap_err();
    assert!(error.message().contains("executable file not found in $PATH"), "{error}");
    let status = node.status(&id).await;
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 128));
    assert_eq!((status.reason.as_str(), status.started_at), ("StartError", 0));
    assert!(status.finished_at > 0 && status.message.contains("executable file not found"));
    assert!(node.start_container(&id).await.is_err());
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn stop_sends_the_signal_and_kills_after_the_grace_period() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let polite =
        node.container_config("polite", "trap 'exit 7' TERM; echo up; while true; do sleep 0.05; done");
    let polite = node.run(&sandbox, &polite).await;
    let log = node.status(&polite).await.log_path;
    until(|| async { (!log_text(Path::new(&log)).is_empty()).then_some(()) }).await;
    node.stop_container(&polite, 30).await;
    assert_eq!(node.status(&polite).await.exit_code, 7);
    let stubborn = node.run(&sandbox, &node.container_config("stubborn", "trap '' TERM; sleep 1000")).await;
    node.stop_container(&stubborn, 1).await;
    assert_eq!(node.status(&stubborn).await.exit_code, 137);
    node.remove_sandbox(&sandbox).await;
}

#[tokio::test]
#[ignore = "needs root"]
async fn exec_returns_output_and_exit_code() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.run(&sandbox, &node.container_config("main", "sleep 1000")).await;
    let output = node.exec(&id, "echo out; echo err >&2; exit 5", 10).await.unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!(output.exit_code, 5);
    let background = node.exec(&id, "sleep 1000 & echo started", 20).await.unwrap();
    assert_eq!(background.stdout, b"started\n");
    let missing = ExecSyncRequest { container_id: id.clone(), cmd: vec!["nothing".into()], timeout: 5 };
    let error = node.runtime().exec_sync(missing).await.unwrap_err();
    assert!(error.message().contains("executable file not found"), "{error}");
    node.stop_container(&id, 0).await;
    assert!(node.exec(&id, "true", 5).await.unwrap_err().message().contains("not running"));
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn exec_that_takes_too_long_is_killed_with_its_children() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.run(&sandbox, &node.container_config("main", "sleep 1000")).await;
    let error = node.exec(&id, "sleep 771 & sh -c 'sleep 772 & sleep 773'", 1).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    until(|| async {
        let left = node.exec_output(&id, "ps | grep -c '[s]leep 77' || true").await;
        (left == "0\n").then_some(())
    })
    .await;
    node.remove_sandbox(&sandbox).await;
}

#[tokio::test]
#[ignore = "needs root"]
async fn reopened_log_continues_in_a_new_file() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let script = "echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two; sleep 1000";
    let id = node.run(&sandbox, &node.container_config("main", script)).await;
    let log = node.status(&id).await.log_path;
    let log = Path::new(&log);
    until(|| async { (log_text(log) == "one\n").then_some(()) }).await;
    fs::rename(log, log.with_extension("1")).unwrap();
    let request = ReopenContainerLogRequest { container_id: id.clone() };
    node.runtime().reopen_container_log(request.clone()).await.unwrap();
    assert!(log.exists());
    node.exec_output(&id, "touch /tmp/go").await;
    until(|| async { (log_text(log) == "two\n").then_some(()) }).await;
    assert_eq!(log_text(&log.with_extension("1")), "one\n");
    node.stop_container(&id, 0).await;
    assert!(node.runtime().reopen_container_log(request).await.is_err());
    node.remove_sandbox(&sandbox).await;
}

#[tokio::test]
#[ignore = "needs root"]
async fn lists_are_filtered_by_prefix_state_and_label() {
    let node = Node::start().await;
    let a = node.run_sandbox(&node.sandbox_config("a")).await;
    let b = node.run_sandbox(&node.sandbox_config("b")).await;
    let running = node.run(&a, &node.container_config("main", "sleep 1000")).await;
    let created = node.create(&b, &node.container_config("main", "sleep 1000")).await.unwrap();
    let list = |filter: ContainerFilter| async {
        let request = ListContainersRequest { filter: Some(filter) };
        let list = node.runtime().list_containers(request).await.unwrap().into_inner().containers;
        let mut ids: Vec<String> = list.into_iter().map(|container| container.id).collect();
        ids.sort_unstable();
        ids
    };
    let none = ContainerFilter::default;
    let mut both = vec![running.clone(), created.clone()];
    both.sort_unstable();
    assert_eq!(list(none()).await, both);
    assert_eq!(
        list(ContainerFilter { id: running[..20].into(), ..none() }).await,
        std::slice::from_ref(&running)
    );
    assert_eq!(
        list(ContainerFilter { pod_sandbox_id: b[..20].into(), ..none() }).await,
        std::slice::from_ref(&created)
    );
    let state = ContainerStateValue { state: ContainerState::ContainerRunning.into() };
    assert_eq!(list(ContainerFilter { state: Some(state), ..none() }).await, std::slice::from_ref(&running));
    let label_selector = [("container".to_owned(), "other".to_owned())].into();
    assert!(list(ContainerFilter { label_selector, ..none() }).await.is_empty());
    let by_prefix = ContainerStatusRequest { container_id: running[..20].into(), verbose: true };
    let status = node.runtime().container_status(by_prefix).await.unwrap().into_inner();
    assert_eq!(status.status.unwrap().id, running);
    assert!(status.info["info"].contains("runtimeSpec"));
    node.remove_sandbox(&a).await;
    node.remove_sandbox(&b).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn images_have_one_id_in_all_requests() {
    let node = Node::start().await;
    let images = node.images().list_images(ListImagesRequest::default()).await.unwrap().into_inner().images;
    let [image] = images.as_slice() else { unreachable!("{images:?}") };
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.create(&sandbox, &node.container_config("main", "true")).await.unwrap();
    assert_eq!(node.status(&id).await.image_id, image.id);
    let spec = |name: &str| Some(ImageSpec { image: name.to_owned(), ..ImageSpec::default() });
    for name in [IMAGE, "busybox:test", image.id.as_str(), &image.id[..20]] {
        let request = ImageStatusRequest { image: spec(name), verbose: false };
        let status = node.images().image_status(request).await.unwrap().into_inner();
        assert_eq!(status.image.unwrap().id, image.id, "{name}");
    }
    let request = RemoveImageRequest { image: spec(IMAGE) };
    node.images().remove_image(request).await.unwrap();
    assert!(node.create(&sandbox, &node.container_config("other", "true")).await.is_err());
    node.start_container(&id).await.unwrap();
    assert_eq!(node.exited(&id).await.exit_code, 0);
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn runtime_describes_itself_completely() {
    let node = Node::start().await;
    let version = node.runtime().version(VersionRequest::default()).await.unwrap().into_inner();
    for text in [version.version, version.runtime_name, version.runtime_version, version.runtime_api_version]
    {
        assert!(!text.is_empty());
    }
    let status = node.runtime().status(StatusRequest { verbose: true }).await.unwrap().into_inner();
    let conditions: Vec<_> = status.status.unwrap().conditions.into_iter().map(|c| c.r#type).collect();
    assert_eq!(conditions, ["RuntimeReady", "NetworkReady"]);
    assert!(status.info["config"].contains("stateDir"));
    let config = node.runtime().runtime_config(RuntimeConfigRequest {}).await.unwrap().into_inner();
    assert_eq!(config.linux.unwrap().cgroup_driver(), CgroupDriver::Cgroupfs);
    let checkpoint = CheckpointContainerRequest::default();
    let error = node.runtime().checkpoint_container(checkpoint).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
    let usage = node.images().image_fs_info(ImageFsInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(usage.image_filesystems.len(), 1);
}
