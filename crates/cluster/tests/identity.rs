//! The identity of a node with a real API server and controller manager.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cluster::identity::{Credential, Meters, Naming, ServingCertificate, Settings, connect};
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

/// Certificates are dated back by five minutes, so that one of 55 seconds is due within 20.
const SHORT: Duration = Duration::from_secs(55);
const SOON: Duration = Duration::from_secs(50);

/// A node that joined; its upkeep runs until it is dropped.
struct Joined {
    clients: Clients,
    upkeep: AbortOnDropHandle<()>,
    _stop: DropGuard,
}

async fn join(settings: Settings) -> Joined {
    let (clients, upkeep) = connect(settings, Arc::new(SystemClock), Meters::default()).await.unwrap();
    let cancel = CancellationToken::new();
    let upkeep = AbortOnDropHandle::new(tokio::spawn(upkeep.run(cancel.clone())));
    Joined { clients, upkeep, _stop: cancel.drop_guard() }
}

fn settings(folder: &Path, bootstrap: Option<PathBuf>, rotate: bool) -> Settings {
    Settings {
        kubeconfig: folder.join("kubeconfig"),
        bootstrap_kubeconfig: bootstrap,
        certificate_folder: folder.join("pki"),
        node: "n1".to_owned(),
        rotate,
        clients: ClientSettings::default(),
    }
}

/// Who the API server takes us for.
async fn who(client: &Client) -> (String, Vec<String>) {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.groups.unwrap())
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    assert!(tokio::time::timeout(SOON, wait).await.is_ok(), "not in {SOON:?}: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_bootstraps_from_a_token_and_rotates() {
    let options = ControlPlaneOptions { signing_duration: SHORT, ..ControlPlaneOptions::default() };
    let plane = ControlPlane::start_with(options).await.unwrap();
    let folder = TempDir::new().unwrap();
    let settings = settings(folder.path(), Some(plane.bootstrap_kubeconfig().unwrap()), true);
    let node = join(settings.clone()).await;

    // The first request waits for the certificate.
    let (user, groups) = who(&node.clients.urgent).await;
    assert_eq!(user, "system:node:n1");
    assert!(groups.contains(&"system:nodes".to_owned()), "{groups:?}");
    let mode = std::fs::metadata(&settings.kubeconfig).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!folder.path().join("pki/kubelet-client.key.tmp").exists());
    let link = folder.path().join("pki/kubelet-client-current.pem");
    let first = std::fs::read_link(&link).unwrap();

    // A watch that is open while the certificate changes.
    let nodes: Api<Node> = Api::all(node.clients.main.clone());
    let only = watcher::Config::default().fields("metadata.name=n1");
    let mut events = watcher::watcher(nodes.clone(), only).boxed();
    while !matches!(events.next().await.unwrap().unwrap(), watcher::Event::InitDone) {}

    until("a second certificate", || std::fs::read_link(&link).unwrap() != first).await;
    for lane in [&node.clients.heartbeat, &node.clients.urgent, &node.clients.main, &node.clients.events] {
        assert_eq!(who(lane).await.0, "system:node:n1");
    }
    let made: Node = serde_json::from_value(json!({"metadata": {"name": "n1"}})).unwrap();
    nodes.create(&PostParams::default(), &made).await.unwrap();
    // Neither an error nor a new list comes before it: the watch was taken up where it was.
    let event = tokio::time::timeout(SOON, events.next()).await.expect("the watch is dead").unwrap();
    assert!(matches!(event, Ok(watcher::Event::Apply(_))), "{event:?}");
    assert!(!node.upkeep.is_finished());
    drop(node);

    // Later the kubeconfig alone is enough.
    let again = join(Settings { bootstrap_kubeconfig: None, ..settings }).await;
    assert_eq!(who(&again.clients.main).await.0, "system:node:n1");
    let refused =
        plane.requests().unwrap().into_iter().filter(|request| request.user.starts_with("system:node"));
    let refused: Vec<_> = refused.filter(|request| matches!(request.code, 401 | 403)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_its_approval_over_a_restart() {
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
    assert_eq!(who(&node.clients.main).await.0, "system:node:n1");
    assert_eq!(requests(&plane, 1).await, names, "the restarted node asked once more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serving_certificate_follows_the_nodes_addresses() {
    let plane = ControlPlane::start().await.unwrap();
    let folder = TempDir::new().unwrap();
    let clients = Clients::from_kubeconfig(&plane.node_kubeconfig("n1").unwrap()).await.unwrap();
    let address = |text: &str| NodeAddress { type_: "InternalIP".to_owned(), address: text.to_owned() };
    let (addresses, followed) = watch::channel(Vec::new());
    let clock = Arc::new(SystemClock);
    let (_, upkeep) = ServingCertificate::requested(
        &clients,
        (folder.path(), None),
        "n1",
        (followed, Naming::ByAddress),
        (clock, Arc::new(())),
    );
    let cancel = CancellationToken::new();
    let _upkeep = AbortOnDropHandle::new(tokio::spawn(upkeep.run(cancel.clone())));
    let _stop = cancel.drop_guard();

    let link = folder.path().join("kubelet-server-current.pem");
    let mut approved = Vec::new();
    for (count, texts) in [(1, &["10.0.0.1"][..]), (2, &["10.0.0.1", "10.0.0.2"])] {
        addresses.send_replace(texts.iter().map(|text| address(text)).collect());
        let names = requests(&plane, count).await;
        let new: Vec<_> = names.into_iter().filter(|name| !approved.contains(name)).collect();
        plane.kubectl(&["certificate", "approve", &new[0]]).await.unwrap();
        approved.extend(new);
        let wanted: Vec<std::net::IpAddr> = texts.iter().map(|text| text.parse().unwrap()).collect();
        until("a certificate with the addresses", || {
            Credential::from_files(&link, &link).is_ok_and(|found| found.names.addresses == wanted)
        })
        .await;
    }
}

/// The names of all certificate requests, once there are so many.
async fn requests(plane: &ControlPlane, count: usize) -> Vec<String> {
    let asked = async {
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
    tokio::time::timeout(SOON, asked).await.expect("no certificate request")
}
