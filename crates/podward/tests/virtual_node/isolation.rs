//! User namespaces and runtime handlers.

use cri::v1::{NamespaceMode, RuntimeHandler, RuntimeHandlerFeatures, UserNamespace};
use serde_json::{Value, json};

use crate::node::{VirtualNode, pod};

fn node() -> VirtualNode {
    let mut node = VirtualNode::new();
    let features = RuntimeHandlerFeatures { user_namespaces: true, ..Default::default() };
    let handler = |name: &str| RuntimeHandler { name: name.into(), features: Some(features) };
    node.runtime.set_handlers(vec![handler(""), handler("kata")]);
    node.start_agent();
    node
}

fn isolated(name: &str, uid: &str) -> Value {
    let mut manifest = pod(name, uid, &["main"]);
    manifest["spec"]["hostUsers"] = json!(false);
    manifest
}

fn users(node: &VirtualNode, uid: &str) -> UserNamespace {
    node.runtime.read(|state| {
        let mine =
            |config: &cri::v1::PodSandboxConfig| config.metadata.as_ref().is_some_and(|of| of.uid == uid);
        let sandbox = state.sandboxes().find(|sandbox| mine(&sandbox.config)).unwrap();
        let security = sandbox.config.linux.clone().unwrap().security_context.unwrap();
        security.namespace_options.unwrap().userns_options.unwrap()
    })
}

#[tokio::test]
async fn user_id_ranges_survive_the_agent_and_end_with_the_pod() {
    let mut node = node();
    node.write("a.json", &isolated("a", "uid-a"));
    node.write("b.json", &isolated("b", "uid-b"));
    node.until_running("uid-a").await;
    node.until_running("uid-b").await;
    let (a, b) = (users(&node, "uid-a"), users(&node, "uid-b"));
    assert_eq!((a.mode(), a.uids[0].container_id, a.uids[0].length), (NamespaceMode::Pod, 0, 65_536));
    assert_ne!(a.uids[0].host_id, b.uids[0].host_id);
    assert_eq!(a.uids, a.gids);
    let record = node.path("root/pods/uid-a/userns");
    let recorded = std::fs::read_to_string(&record).unwrap();
    assert!(recorded.contains(&format!("\"hostId\":{},", a.uids[0].host_id)), "{recorded}");

    node.restart_agent().await;
    node.write("c.json", &isolated("c", "uid-c"));
    node.until_running("uid-c").await;
    let c = users(&node, "uid-c").uids[0].host_id;
    assert!(![a.uids[0].host_id, b.uids[0].host_id].contains(&c), "a range is given twice");
    node.remove("a.json");
    node.until_gone("uid-a").await;
    assert!(!record.exists(), "the range of a pod that is gone stays taken");
    node.assert_no_violations();
}

#[tokio::test]
async fn runtime_class_selects_handler_of_its_name() {
    let node = node();
    let mut manifest = pod("a", "uid-a", &["main"]);
    manifest["spec"]["runtimeClassName"] = json!("kata");
    node.write("a.json", &manifest);
    node.until_running("uid-a").await;
    let handlers = node
        .runtime
        .read(|state| state.sandboxes().map(|sandbox| sandbox.runtime_handler.clone()).collect::<Vec<_>>());
    assert_eq!(handlers, ["kata"]);
}

#[tokio::test]
async fn rejected_pod_does_not_affect_others() {
    let node = node();
    let mut greedy = pod("greedy", "uid-greedy", &["main"]);
    greedy["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3"}});
    node.write("greedy.json", &greedy);
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    let status = node.until_status("uid-greedy", |status| status.phase.as_deref() == Some("Failed")).await;
    assert_eq!(status.reason.as_deref(), Some("UnexpectedAdmissionError"));
    assert!(status.message.as_deref().unwrap().starts_with("Pod was rejected: "));
    assert_eq!(node.runtime.read(|state| state.sandboxes().count()), 1);
    // A rejected pod uses no resources.
    node.write("b.json", &pod("b", "uid-b", &["main"]));
    node.until_running("uid-b").await;
}
