//! Client and serving certificates of a node with a real API server and controller manager.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cluster::identity::{
    Credential, IdentityMeters, IdentitySettings, RequiredNames, ServingCertificate, connect,
};
use cluster::{ClientSettings, Clients};
use futures::StreamExt;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{Node, NodeAddress};
use kube::api::PostParams;
use kube::runtime::watcher;
use kube::{Api, Client};
use ports::clock::SystemClock;
use serde_json::json;
use tempfile::TempDir;
use testkit::control_plane::{ControlPlane, ControlPlaneOptions};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// The signer backdates certificates by five minutes, so one of 55 seconds is due within 20 seconds.
const SIGNING_DURATION: Duration = Duration::from_secs(55);
const TIMEOUT: Duration = Duration::from_secs(50);

/// A node with API clients. Its certificate manager runs until this is dropped.
struct TestNode {
    clients: Clients,
    manager: AbortOnDropHandle<()>,
    _stop: DropGuard,
}

async fn join(settings: IdentitySettings) -> TestNode {
    let (clients, manager) =
        connect(settings, Arc::new(SystemClock), IdentityMeters::default()).await.unwrap();
    let cancel = CancellationToken::new();
    let manager = AbortOnDropHandle::new(tokio::spawn(manager.run(cancel.clone())));
    TestNode { clients, manager, _stop: cancel.drop_guard() }
}

fn settings(folder: &Path, bootstrap: Option<PathBuf>, rotate: bool) -> IdentitySettings {
    IdentitySettings {
        kubeconfig: folder.join("kubeconfig"),
        bootstrap_kubeconfig: bootstrap,
        certificate_folder: folder.join("pki"),
        node: "n1".to_owned(),
        rotate,
        clients: ClientSettings::default(),
    }
}

/// Returns the user name and groups under which the API server authenticates the client.
async fn authenticated_user(client: &Client) -> (String, Vec<String>) {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.groups.unwrap())
}

async fn wait_until(condition: &str, mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, wait).await.is_ok(), "not within {TIMEOUT:?}: {condition}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs upstream programs"]
async fn node_bootstraps_from_token_and_rotates_certificate() {
    let options =
        ControlPlaneOptions { signing_duration: SIGNING_DURATION, ..ControlPlaneOptions::default() };
    let plane = ControlPlane::start_with(options).await.unwrap();
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path(), Some(plane.bootstrap_kubeconfig().unwrap()), true);
    let node = join(settings.clone()).await;

    // The first request waits for the certificate.
    let (user, groups) = authenticated_user(&node.clients.urgent).await;
    assert_eq!(user, "system:node:n1");
    assert!(groups.contains(&"system:nodes".to_owned()), "{groups:?}");
    let mode = std::fs::metadata(&settings.kubeconfig).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!folder.path().join("pki/kubelet-client.key.tmp").exists());
    let link = folder.path().join("pki/kubelet-client-current.pem");
    let first = std::fs::read_link(&link).unwrap();

    // Keep a watch open while the certificate changes.
    let nodes: Api<Node> = Api::all(node.clients.main.clone());
    let config = watcher::Config::default().fields("metadata.name=n1");
    let mut events = watcher::watcher(nodes.clone(), config).boxed();
    while !matches!(events.next().await.unwrap().unwrap(), watcher::Event::InitDone) {}

    wait_until("certificate is rotated", || std::fs::read_link(&link).unwrap() != first).await;
    for client in [&node.clients.heartbeat, &node.clients.urgent, &node.clients.main, &node.clients.events] {
        assert_eq!(authenticated_user(client).await.0, "system:node:n1");
    }
    let created: Node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap();
    nodes.create(&PostParams::default(), &created).await.unwrap();
    // No error and no new list precede this event: the watch was resumed.
    let event =
        tokio::time::timeout(TIMEOUT, events.next()).await.expect("the watch did not resume").unwrap();
    assert!(matches!(event, Ok(watcher::Event::Apply(_))), "{event:?}");
    assert!(!node.manager.is_finished());
    drop(node);

    // After a restart the written kubeconfig is sufficient.
    let restarted = join(IdentitySettings { bootstrap_kubeconfig: None, ..settings }).await;
    assert_eq!(authenticated_user(&restarted.clients.main).await.0, "system:node:n1");
    let rejected =
        plane.requests().unwrap().into_iter().filter(|request| request.user.starts_with("system:node"));
    let rejected: Vec<_> = rejected.filter(|request| matches!(request.code, 401 | 403)).collect();
    assert!(rejected.is_empty(), "{rejected:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs upstream programs"]
async fn restarted_node_reuses_its_pending_request() {
    let arguments = vec!["--controllers=*,-certificatesigningrequest-approving-controller".to_owned()];
    let options =
        ControlPlaneOptions { controller_manager_arguments: arguments, ..ControlPlaneOptions::default() };
    let plane = ControlPlane::start_with(options).await.unwrap();
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path(), Some(plane.bootstrap_kubeconfig().unwrap()), false);
    let node = join(settings.clone()).await;
    let names = requests(&plane, 1).await;
    drop(node);
    let node = join(settings).await;
    plane.kubectl(&["certificate", "approve", &names[0]]).await.unwrap();
    assert_eq!(authenticated_user(&node.clients.main).await.0, "system:node:n1");
    assert_eq!(requests(&plane, 1).await, names, "the restarted node sent another request");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs upstream programs"]
async fn renews_serving_certificate_when_node_addresses_change() {
    let plane = ControlPlane::start().await.unwrap();
    let folder = TempDir::new().unwrap();
    let kubeconfig = plane.node_kubeconfig("n1").unwrap();
    let settings = IdentitySettings { kubeconfig, ..settings(folder.path(), None, false) };
    let (clients, _) = connect(settings, Arc::new(SystemClock), IdentityMeters::default()).await.unwrap();
    let address = |text: &str| NodeAddress { type_: "InternalIP".to_owned(), address: text.to_owned() };
    let (addresses, receiver) = watch::channel(Vec::new());
    let clock = Arc::new(SystemClock);
    let (_, manager) = ServingCertificate::requested(
        &clients,
        (folder.path(), None),
        "n1",
        (receiver, RequiredNames::IpAddress),
        (clock, Arc::new(())),
    );
    let cancel = CancellationToken::new();
    let _running = AbortOnDropHandle::new(tokio::spawn(manager.run(cancel.clone())));
    let _stop = cancel.drop_guard();

    let link = folder.path().join("kubelet-server-current.pem");
    let mut approved = Vec::new();
    for (count, texts) in [(1, &["10.0.0.1"][..]), (2, &["10.0.0.1", "10.0.0.2"])] {
        addresses.send_replace(texts.iter().map(|text| address(text)).collect());
        let names = requests(&plane, count).await;
        let new: Vec<_> = names.into_iter().filter(|name| !approved.contains(name)).collect();
        plane.kubectl(&["certificate", "approve", &new[0]]).await.unwrap();
        approved.extend(new);
        let expected: Vec<std::net::IpAddr> = texts.iter().map(|text| text.parse().unwrap()).collect();
        wait_until("certificate has the node addresses", || {
            Credential::from_files(&link, &link).is_ok_and(|found| found.names.addresses == expected)
        })
        .await;
    }
}

/// Waits for at least `count` certificate requests and returns their names.
async fn requests(plane: &ControlPlane, count: usize) -> Vec<String> {
    let listed = async {
        loop {
            let list = plane.get(&["certificatesigningrequests"]).await.unwrap();
            let items = list["items"].as_array().unwrap().iter();
            let names: Vec<_> =
                items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            if names.len() >= count {
                return names;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, listed).await.expect("no certificate request")
}
