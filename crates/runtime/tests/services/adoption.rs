//! A restarted runtime and the pods that ran meanwhile.

use std::fs;
use std::path::Path;

use cri::v1::*;

use crate::node::{Node, log_text, until};

#[tokio::test]
#[ignore = "needs root"]
async fn running_container_is_adopted_and_its_exit_code_is_kept() {
    let mut node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let script = "echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two; exit 4";
    let id = node.run(&sandbox, &node.container_config("main", script)).await;
    let before = node.status(&id).await;
    node.restart().await;
    assert_eq!(node.sandbox_status(&sandbox).await.state(), PodSandboxState::SandboxReady);
    let after = node.status(&id).await;
    assert_eq!(after.state(), ContainerState::ContainerRunning);
    assert_eq!((after.created_at, &after.labels), (before.created_at, &before.labels));
    node.exec_output(&id, "touch /tmp/go").await;
    let status = node.exited(&id).await;
    assert_eq!(status.exit_code, 4);
    assert_eq!(log_text(Path::new(&status.log_path)), "one\ntwo\n");
    assert!(node.start_container(&id).await.is_err());
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn exit_without_a_runtime_is_reported_by_the_next_one() {
    let mut node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.run(&sandbox, &node.container_config("main", "sleep 0.3; exit 9")).await;
    let created = node.create(&sandbox, &node.container_config("later", "exit 2")).await.unwrap();
    let record = node.state().join(&sandbox[..16]).join("exits").join(format!("{id}.json"));
    node.stop();
    until(|| async { record.exists().then_some(()) }).await;
    node.open_again().await;
    let status = node.status(&id).await;
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 9));
    node.start_container(&created).await.unwrap();
    assert_eq!(node.exited(&created).await.exit_code, 2);
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn containers_of_a_dead_keeper_are_ended_and_reported_as_lost() {
    let mut node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.run(&sandbox, &node.container_config("main", "sleep 1000")).await;
    let short = node.run(&sandbox, &node.container_config("short", "exit 6")).await;
    node.exited(&short).await;
    for restart in [false, true] {
        if restart {
            node.stop();
        }
        for pid in node.keepers() {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        if restart {
            node.open_again().await;
        }
        let status = node.exited(&id).await;
        assert_eq!((status.exit_code, status.reason.as_str()), (255, "Unknown"));
        assert_eq!(node.status(&short).await.exit_code, 6);
        assert_eq!(node.sandbox_status(&sandbox).await.state(), PodSandboxState::SandboxNotready);
    }
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn sandbox_of_another_boot_is_not_ready_and_can_be_removed() {
    let mut node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.run(&sandbox, &node.container_config("main", "sleep 1000")).await;
    node.stop();
    for pid in node.keepers() {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    let record = node.root().join("sandboxes").join(&sandbox).join("sandbox.json");
    let mut value: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    value["boot_id"] = "another".into();
    fs::write(&record, value.to_string()).unwrap();
    node.open_again().await;
    assert_eq!(node.sandbox_status(&sandbox).await.state(), PodSandboxState::SandboxNotready);
    let status = node.status(&id).await;
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 255));
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn half_made_objects_are_undone_at_the_next_start() {
    let mut node = Node::start().await;
    let config = node.sandbox_config("a");
    let sandbox = node.run_sandbox(&config).await;
    let container = node.container_config("main", "sleep 1000");
    let id = node.create(&sandbox, &container).await.unwrap();
    let other = node.run_sandbox(&node.sandbox_config("b")).await;
    node.stop();
    // As if the runtime had been killed before the last step of each.
    let containers = node.root().join("containers").join(&id).join("container.json");
    let sandboxes = node.root().join("sandboxes").join(&other).join("sandbox.json");
    for record in [containers, sandboxes] {
        let text = fs::read_to_string(&record).unwrap();
        fs::write(&record, text.replace("\"Complete\"", "\"Preparing\"")).unwrap();
    }
    node.open_again().await;
    let list = node.runtime().list_pod_sandbox(ListPodSandboxRequest::default()).await.unwrap().into_inner();
    let listed: Vec<&str> = list.items.iter().map(|sandbox| sandbox.id.as_str()).collect();
    assert_eq!(listed, [&sandbox]);
    let id = node.create(&sandbox, &container).await.unwrap();
    node.start_container(&id).await.unwrap();
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn damaged_record_does_not_block_the_other_pods() {
    let mut node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let id = node.run(&sandbox, &node.container_config("main", "sleep 1000")).await;
    node.stop();
    let broken = node.root().join("sandboxes").join("e".repeat(64));
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("sandbox.json"), "{").unwrap();
    node.open_again().await;
    assert_eq!(node.status(&id).await.state(), ContainerState::ContainerRunning);
    assert!(broken.exists());
    fs::remove_dir_all(broken).unwrap();
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}
