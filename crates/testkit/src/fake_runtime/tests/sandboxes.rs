use super::super::{Rpc, Violation};
use super::*;

#[tokio::test]
async fn sandbox_is_ready_with_unique_address() {
    let (fake, mut client) = node();
    let one = client.run("a", 0).await.unwrap();
    let two = client.run("b", 0).await.unwrap();
    let one = client.sandbox(&one).await.unwrap();
    let two = client.sandbox(&two).await.unwrap();
    assert_eq!(one.state(), PodSandboxState::SandboxReady);
    assert_eq!(one.labels[POD_UID], "a");
    let (one, two) = (one.network.unwrap().ip, two.network.unwrap().ip);
    assert!(one.parse::<std::net::Ipv4Addr>().is_ok() && one != two, "{one} {two}");
    assert_no_violations(&fake);
}

#[tokio::test]
async fn host_network_pods_have_no_address() {
    let (_fake, mut client) = node();
    let mut config = pod("a", 0);
    let options = NamespaceOption { network: NamespaceMode::Node.into(), ..Default::default() };
    config.linux = Some(LinuxPodSandboxConfig {
        security_context: Some(LinuxSandboxSecurityContext {
            namespace_options: Some(options.clone()),
            ..Default::default()
        }),
        ..Default::default()
    });
    let request = RunPodSandboxRequest { config: Some(config), ..Default::default() };
    let id = client.runtime.run_pod_sandbox(request).await.unwrap().into_inner().pod_sandbox_id;
    let status = client.sandbox(&id).await.unwrap();
    assert_eq!(status.network.unwrap().ip, "");
    assert_eq!(status.linux.unwrap().namespaces.unwrap().options.unwrap(), options);
}

#[tokio::test]
async fn sandbox_name_is_reserved_until_removal() {
    let (fake, mut client) = node();
    let id = client.run("a", 0).await.unwrap();
    assert_eq!(code(client.run("a", 0).await), Code::Unknown);
    client.stop_sandbox(&id).await.unwrap();
    assert_eq!(code(client.run("a", 0).await), Code::Unknown, "a stopped sandbox keeps its name");
    client.remove_sandbox(&id).await.unwrap();
    client.run("a", 0).await.unwrap();
    let twice = Violation::SandboxCreatedTwice { pod_uid: "a".into(), attempt: 0 };
    assert_eq!(fake.violations(), [twice.clone(), twice]);
}

#[tokio::test]
async fn two_ready_sandboxes_of_one_pod_are_a_violation() {
    let (fake, mut client) = node();
    let first = client.run("a", 0).await.unwrap();
    let second = client.run("a", 1).await.unwrap();
    assert_eq!(
        fake.violations(),
        [Violation::TwoReadySandboxes { pod_uid: "a".into(), sandboxes: vec![first, second] }]
    );
}

#[tokio::test]
async fn new_attempt_is_allowed_after_sandbox_stop() {
    let (fake, mut client) = node();
    let first = client.run("a", 0).await.unwrap();
    client.stop_sandbox(&first).await.unwrap();
    let second = client.run("a", 1).await.unwrap();
    assert_no_violations(&fake);
    assert_eq!(fake.read(|state| state.ready_sandbox("a").unwrap().id.clone()), second);
}

#[tokio::test]
async fn sandbox_stop_kills_containers_and_frees_address() {
    let (fake, mut client) = node();
    let (sandbox, container) = client.running("a").await;
    for _ in 0..2 {
        client.stop_sandbox(&sandbox).await.unwrap();
    }
    let status = client.status(&container).await.unwrap();
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 137));
    let status = client.sandbox(&sandbox).await.unwrap();
    assert_eq!(status.state(), PodSandboxState::SandboxNotready);
    assert_eq!(status.network.unwrap().ip, "");
    assert_no_violations(&fake);
}

#[tokio::test]
async fn sandbox_removal_removes_containers_and_is_idempotent() {
    let (fake, mut client) = node();
    let (sandbox, container) = client.running("a").await;
    client.stop_sandbox(&sandbox).await.unwrap();
    for _ in 0..2 {
        client.remove_sandbox(&sandbox).await.unwrap();
    }
    assert_eq!(code(client.sandbox(&sandbox).await), Code::NotFound);
    assert_eq!(code(client.status(&container).await), Code::NotFound);
    assert_no_violations(&fake);
    assert_eq!(fake.count(Rpc::RemovePodSandbox), 2);
}

#[tokio::test]
async fn removing_ready_sandbox_is_a_violation() {
    let (fake, mut client) = node();
    let (sandbox, _) = client.running("a").await;
    client.remove_sandbox(&sandbox).await.unwrap();
    assert_eq!(fake.violations(), [Violation::SandboxRemovedWhileReady { id: sandbox }]);
    assert_eq!(fake.read(|state| state.containers().count()), 0);
}

#[tokio::test]
async fn unknown_sandbox_can_be_stopped_and_removed_but_has_no_status() {
    let (_fake, mut client) = node();
    client.stop_sandbox("nobody").await.unwrap();
    client.remove_sandbox("nobody").await.unwrap();
    assert_eq!(code(client.sandbox("nobody").await), Code::NotFound);
}

#[tokio::test]
async fn lists_apply_every_filter_field() {
    let (_fake, mut client) = node();
    let a = client.run("a", 0).await.unwrap();
    let b = client.run("b", 0).await.unwrap();
    client.stop_sandbox(&b).await.unwrap();
    let labels = |uid: &str| [(POD_UID.to_owned(), uid.to_owned())].into();
    let state = |state: PodSandboxState| Some(PodSandboxStateValue { state: state.into() });
    assert_eq!(client.sandboxes(PodSandboxFilter::default()).await, [a.clone(), b.clone()]);
    let by_id = PodSandboxFilter { id: b.clone(), ..Default::default() };
    assert_eq!(client.sandboxes(by_id.clone()).await, [b.as_str()]);
    let ready = PodSandboxFilter { state: state(PodSandboxState::SandboxReady), ..Default::default() };
    assert_eq!(client.sandboxes(ready.clone()).await, [a]);
    let by_label = PodSandboxFilter { label_selector: labels("b"), ..Default::default() };
    assert_eq!(client.sandboxes(by_label).await, [b.as_str()]);
    let neither = PodSandboxFilter { id: b.clone(), ..ready.clone() };
    assert!(client.sandboxes(neither).await.is_empty());
    let other_label = PodSandboxFilter { label_selector: [("x".to_owned(), "y".to_owned())].into(), ..by_id };
    assert!(client.sandboxes(other_label).await.is_empty());
}

#[tokio::test]
async fn only_host_network_pods_start_without_network() {
    let (fake, mut client) = node();
    fake.set_network_ready(false);
    assert_eq!(code(client.run("a", 0).await), Code::Unknown);
    fake.set_network_ready(true);
    client.run("a", 0).await.unwrap();
    assert_no_violations(&fake);
}

#[tokio::test]
async fn dead_sandbox_leaves_containers_running() {
    let (fake, mut client) = node();
    let (sandbox, container) = client.running("a").await;
    fake.kill_sandbox(&sandbox);
    assert_eq!(client.sandbox(&sandbox).await.unwrap().state(), PodSandboxState::SandboxNotready);
    assert_eq!(client.status(&container).await.unwrap().state(), ContainerState::ContainerRunning);
}
