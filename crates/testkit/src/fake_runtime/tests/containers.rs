use super::super::{Exit, RuntimeState, Violation};
use super::*;

#[tokio::test]
async fn container_goes_from_created_to_running_to_exited() {
    let (fake, mut client) = node();
    let sandbox = client.run("a", 0).await.unwrap();
    let id = client.create(&sandbox, "main", 2).await.unwrap();
    let created = client.status(&id).await.unwrap();
    assert_eq!(created.state(), ContainerState::ContainerCreated);
    assert!(created.created_at > 0 && created.started_at == 0 && created.finished_at == 0);
    assert_eq!(created.log_path, "/var/log/pods/a/main/2.log");
    assert_eq!(created.metadata.unwrap().attempt, 2);
    client.start(&id).await.unwrap();
    let running = client.status(&id).await.unwrap();
    assert_eq!(running.state(), ContainerState::ContainerRunning);
    assert!(running.started_at >= created.created_at);
    fake.exit_container(&id, Exit::code(3));
    let exited = client.status(&id).await.unwrap();
    assert_eq!(exited.state(), ContainerState::ContainerExited);
    assert_eq!((exited.exit_code, exited.reason.as_str()), (3, "Error"));
    assert!(exited.finished_at >= running.started_at);
    assert_no_violations(&fake);
}

#[tokio::test]
async fn exit_reason_follows_exit_code() {
    let (fake, mut client) = node();
    for (uid, exit, reason) in [
        ("a", Exit::code(0), "Completed"),
        ("b", Exit::code(1), "Error"),
        ("c", Exit::oom_killed(), "OOMKilled"),
    ] {
        let (_, id) = client.running(uid).await;
        fake.exit_container(&id, exit);
        assert_eq!(client.status(&id).await.unwrap().reason, reason);
    }
}

#[tokio::test]
async fn creation_requires_ready_sandbox_and_present_image() {
    let (fake, mut client) = node();
    assert_eq!(code(client.create("nobody", "main", 0).await), Code::NotFound);
    let sandbox = client.run("a", 0).await.unwrap();
    let mut config = container("a", "main", 0);
    config.image = Some(ImageSpec { image: "absent".into(), ..Default::default() });
    assert_eq!(code(client.create_from(&sandbox, config).await), Code::NotFound);
    client.stop_sandbox(&sandbox).await.unwrap();
    assert_eq!(code(client.create(&sandbox, "main", 0).await), Code::Unknown);
    assert_no_violations(&fake);
}

#[tokio::test]
async fn attempt_can_be_created_once_until_removed() {
    let (fake, mut client) = node();
    let sandbox = client.run("a", 0).await.unwrap();
    let id = client.create(&sandbox, "main", 0).await.unwrap();
    assert_eq!(code(client.create(&sandbox, "main", 0).await), Code::Unknown);
    client.create(&sandbox, "main", 1).await.unwrap();
    client.create(&sandbox, "other", 0).await.unwrap();
    client.remove(&id).await.unwrap();
    client.create(&sandbox, "main", 0).await.unwrap();
    let twice = Violation::CreatedTwice { pod_uid: "a".into(), container: "main".into(), attempt: 0 };
    assert_eq!(fake.violations(), [twice]);
}

#[tokio::test]
async fn attempt_is_unique_in_the_pod() {
    let (_fake, mut client) = node();
    let first = client.run("a", 0).await.unwrap();
    client.create(&first, "main", 0).await.unwrap();
    client.stop_sandbox(&first).await.unwrap();
    let second = client.run("a", 1).await.unwrap();
    assert_eq!(code(client.create(&second, "main", 0).await), Code::Unknown);
    client.create(&second, "main", 1).await.unwrap();
}

#[tokio::test]
async fn only_created_container_can_be_started() {
    let (fake, mut client) = node();
    assert_eq!(code(client.start("nobody").await), Code::NotFound);
    let (_, id) = client.running("a").await;
    assert_eq!(code(client.start(&id).await), Code::Unknown);
    fake.exit_container(&id, Exit::code(0));
    assert_eq!(code(client.start(&id).await), Code::Unknown);
    assert_eq!(
        fake.violations(),
        [Violation::StartedWhileRunning { id: id.clone() }, Violation::StartedAfterExit { id }]
    );
}

#[tokio::test]
async fn container_does_not_start_in_stopped_sandbox() {
    let (_fake, mut client) = node();
    let sandbox = client.run("a", 0).await.unwrap();
    let id = client.create(&sandbox, "main", 0).await.unwrap();
    client.stop_sandbox(&sandbox).await.unwrap();
    assert_eq!(code(client.start(&id).await), Code::Unknown);
    assert_eq!(client.status(&id).await.unwrap().state(), ContainerState::ContainerCreated);
}

#[tokio::test]
async fn one_container_running_twice_is_a_violation() {
    let (fake, mut client) = node();
    let (sandbox, first) = client.running("a").await;
    let second = client.create(&sandbox, "main", 1).await.unwrap();
    assert_no_violations(&fake);
    client.start(&second).await.unwrap();
    assert_eq!(
        fake.violations(),
        [Violation::TwoRunningContainers {
            pod_uid: "a".into(),
            container: "main".into(),
            ids: vec![first, second]
        }]
    );
}

#[tokio::test]
async fn restart_after_exit_is_allowed() {
    let (fake, mut client) = node();
    let (sandbox, first) = client.running("a").await;
    fake.exit_container(&first, Exit::code(1));
    let second = client.create(&sandbox, "main", 1).await.unwrap();
    client.start(&second).await.unwrap();
    assert_no_violations(&fake);
    assert_eq!(fake.read(|state| state.running_container("a", "main").unwrap().id.clone()), second);
}

#[tokio::test]
async fn stop_and_remove_of_unknown_container_succeed() {
    let (fake, mut client) = node();
    client.stop("nobody", 5).await.unwrap();
    client.remove("nobody").await.unwrap();
    let (_, id) = client.running("a").await;
    for _ in 0..2 {
        client.stop(&id, 7).await.unwrap();
    }
    for _ in 0..2 {
        client.remove(&id).await.unwrap();
    }
    assert_eq!(code(client.status(&id).await), Code::NotFound);
    assert_no_violations(&fake);
}

#[tokio::test]
async fn removing_running_container_is_a_violation() {
    let (fake, mut client) = node();
    let (_, id) = client.running("a").await;
    client.remove(&id).await.unwrap();
    assert_eq!(fake.violations(), [Violation::RemovedWhileRunning { id }]);
    assert_eq!(fake.read(RuntimeState::running_count), 0);
}

#[tokio::test]
async fn lists_apply_every_filter_field() {
    let (fake, mut client) = node();
    let (sandbox_a, a) = client.running("a").await;
    let (_, b) = client.running("b").await;
    fake.exit_container(&b, Exit::code(0));
    let all = ContainerFilter::default();
    assert_eq!(client.containers(all.clone()).await, [a.clone(), b.clone()]);
    let by_id = ContainerFilter { id: b.clone(), ..all.clone() };
    assert_eq!(client.containers(by_id.clone()).await, [b.as_str()]);
    let by_sandbox = ContainerFilter { pod_sandbox_id: sandbox_a.clone(), ..all.clone() };
    assert_eq!(client.containers(by_sandbox).await, [a.as_str()]);
    let running = ContainerStateValue { state: ContainerState::ContainerRunning.into() };
    assert_eq!(client.containers(ContainerFilter { state: Some(running), ..all.clone() }).await, [a]);
    let label_selector = [(POD_UID.to_owned(), "b".to_owned())].into();
    assert_eq!(client.containers(ContainerFilter { label_selector, ..all }).await, [b]);
    let neither = ContainerFilter { pod_sandbox_id: sandbox_a, ..by_id };
    assert!(client.containers(neither).await.is_empty());
}

#[tokio::test]
async fn verbose_status_names_a_process_that_does_not_exist() {
    let (_fake, mut client) = node();
    let (_, id) = client.running("a").await;
    let request = ContainerStatusRequest { container_id: id, verbose: true };
    let info = client.runtime.container_status(request).await.unwrap().into_inner().info;
    let info: serde_json::Value = serde_json::from_str(&info["info"]).unwrap();
    assert_eq!(info["pid"], 0);
}

#[tokio::test]
async fn resources_of_running_container_can_be_updated() {
    let (fake, mut client) = node();
    let (_, id) = client.running("a").await;
    let linux = LinuxContainerResources { cpu_shares: 512, ..Default::default() };
    let request = UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(linux),
        ..Default::default()
    };
    client.runtime.update_container_resources(request.clone()).await.unwrap();
    let status = client.status(&id).await.unwrap();
    assert_eq!(status.resources.unwrap().linux.unwrap().cpu_shares, 512);
    fake.exit_container(&id, Exit::code(0));
    assert_eq!(code(client.runtime.update_container_resources(request).await), Code::Unknown);
}

#[tokio::test]
async fn only_running_container_reopens_its_log() {
    let (fake, mut client) = node();
    let (_, id) = client.running("a").await;
    let request = ReopenContainerLogRequest { container_id: id.clone() };
    client.runtime.reopen_container_log(request.clone()).await.unwrap();
    assert_eq!(fake.read(|state| state.container(&id).unwrap().log_reopens), 1);
    fake.exit_container(&id, Exit::code(0));
    assert_eq!(code(client.runtime.reopen_container_log(request).await), Code::Unknown);
}

#[tokio::test]
async fn stats_cover_running_containers_only() {
    let (fake, mut client) = node();
    let (_, a) = client.running("a").await;
    let (_, b) = client.running("b").await;
    fake.exit_container(&b, Exit::code(0));
    let answer = client.runtime.list_container_stats(ListContainerStatsRequest::default()).await;
    let stats = answer.unwrap().into_inner().stats;
    let ids = stats.into_iter().map(|one| one.attributes.unwrap().id).collect::<Vec<_>>();
    assert_eq!(ids, [a]);
}
