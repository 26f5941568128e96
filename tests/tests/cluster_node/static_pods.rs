//! Static pods and their mirror pods.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, Quiet, container, pod, scenarios, sleeper, with};
use serde_json::{Value, json};
use testkit::images::DEMO_2;
use testkit::poll::throughout;

scenarios!(
    static_pod_has_a_mirror_pod,
    manifest_change_updates_the_mirror_pod,
    mirror_pod_stays_during_grace_of_old_version,
    init_container_removed_while_agent_is_down_is_inferred,
    mirror_pod_follows_when_its_namespace_is_created,
);

const HASH: &str = "/metadata/annotations/kubernetes.io~1config.hash";
const MIRROR: &str = "/metadata/annotations/kubernetes.io~1config.mirror";

/// With frequent syncs: the upstream kubelet updates mirror pods only when it syncs the pod.
async fn start(agent: Agent) -> Result<ClusterNode> {
    let options = AgentOptions { overlay: json!({"syncFrequency": "5s"}), ..AgentOptions::default() };
    ClusterNode::start_with(agent, Joining::WithCertificate, &options).await
}

fn write(node: &ClusterNode, manifest: &Value) -> Result<()> {
    write_in(&node.namespace, node, manifest)
}

fn write_in(namespace: &str, node: &ClusterNode, manifest: &Value) -> Result<()> {
    let manifest = with(manifest.clone(), "/metadata/namespace", json!(namespace));
    let folder = node.agent.manifests();
    std::fs::write(folder.join(".web.new"), manifest.to_string())?;
    std::fs::rename(folder.join(".web.new"), folder.join("web.json")).context("write the manifest")
}

async fn static_pod_has_a_mirror_pod(agent: Agent) -> Result<()> {
    let mut node = start(agent).await?;
    let name = format!("web-{}", node.name);
    write(&node, &sleeper("web"))?;
    let mirror = node.wait_running(&name).await?;
    let object = node.get(&["pod", &name]).await?;
    ensure!(object.pointer(HASH).is_some() && object.pointer(HASH) == object.pointer(MIRROR), "{object}");
    ensure!(object["metadata"]["ownerReferences"][0]["kind"] == "Node", "{}", object["metadata"]);
    ensure!(object["spec"]["nodeName"] == node.name.as_str(), "{}", object["spec"]);
    node.restart_agent_unseen().await?;
    let containers = node.running(&name).await?;
    node.kubectl(&["delete", "pod", &name, "--wait=false"]).await?;
    let uid = mirror.uid;
    node.wait_pod(&name, "is mirrored again", |pod| pod.uid != uid && pod.all_running()).await?;
    ensure!(node.running(&name).await? == containers, "deleting the mirror touched the pod");
    std::fs::remove_file(node.agent.manifests().join("web.json"))?;
    node.wait_absent(&["pod", &name]).await?;
    node.wait("nothing runs", async || {
        ensure!(node.running(&name).await?.is_empty(), "containers run");
        Ok(())
    })
    .await?;
    node.end()
}

async fn manifest_change_updates_the_mirror_pod(agent: Agent) -> Result<()> {
    let node = start(agent).await?;
    let name = format!("web-{}", node.name);
    write(&node, &sleeper("web"))?;
    let before = node.wait_running(&name).await?;
    write(&node, &with(sleeper("web"), "/spec/containers/0/image", json!(DEMO_2)))?;
    let uid = before.uid;
    node.wait_pod(&name, "is replaced", |pod| pod.uid != uid && pod.all_running()).await?;
    let object = node.get(&["pod", &name]).await?;
    ensure!(object["spec"]["containers"][0]["image"] == DEMO_2, "{}", object["spec"]);
    ensure!(object.pointer(HASH).is_some() && object.pointer(HASH) == object.pointer(MIRROR), "{object}");
    node.end()
}

async fn mirror_pod_stays_during_grace_of_old_version(agent: Agent) -> Result<()> {
    let node = start(agent).await?;
    let name = format!("web-{}", node.name);
    let deaf = pod("web", [container("main", "sleep forever --ignore-term")]);
    let deaf = with(deaf, "/spec/terminationGracePeriodSeconds", json!(20));
    write(&node, &deaf)?;
    let before = node.wait_running(&name).await?;
    write(&node, &with(deaf, "/spec/containers/0/image", json!(DEMO_2)))?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(15) {
        let now = node.pod(&name).await?;
        ensure!(now.uid == before.uid && now.all_running(), "after {:?}: {now:?}", start.elapsed());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let uid = before.uid;
    node.wait_pod(&name, "is replaced", |pod| pod.uid != uid && pod.all_running()).await?;
    node.end()
}

async fn init_container_removed_while_agent_is_down_is_inferred(agent: Agent) -> Result<()> {
    let mut node = start(agent).await?;
    let name = format!("web-{}", node.name);
    write(&node, &with(sleeper("web"), "/spec/initContainers", json!([container("init", "print done")])))?;
    node.wait_running(&name).await?;
    Quiet::settle(&node).await?;
    node.agent.kill9()?;
    let containers = node.cri().containers_of(&name).await?;
    let init = containers.iter().find(|view| view.name == "init").context("the init container")?;
    node.cri().remove_container(&init.id).await?;
    node.agent.start()?;
    let pointer = "/status/initContainerStatuses/0/state/terminated/message";
    let message = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally";
    let object = node.wait_field(&["pod", &name], pointer, &json!(message)).await?;
    let ended = &object["status"]["initContainerStatuses"][0]["state"]["terminated"];
    ensure!(ended["reason"] == "Completed" && ended["exitCode"] == 0, "{ended}");
    ensure!(node.pod(&name).await?.all_running(), "the pod does not run");
    node.end()
}

async fn mirror_pod_follows_when_its_namespace_is_created(agent: Agent) -> Result<()> {
    let node = start(agent).await?;
    let (name, namespace) = (format!("web-{}", node.name), format!("late-{}", node.name));
    write_in(&namespace, &node, &sleeper("web"))?;
    node.wait("the pod runs without a mirror pod", async || {
        ensure!(node.running(&name).await?.len() == 1, "it does not run");
        Ok(())
    })
    .await?;
    // Several syncs of the pod.
    throughout("the pod runs", Duration::from_secs(20), async || {
        ensure!(node.running(&name).await?.len() == 1, "it was stopped");
        Ok(())
    })
    .await?;
    if agent == Agent::Podward {
        // The upstream kubelet logs the error with every sync.
        let log = node.agent.log_tail(10_000);
        let count = log.lines().filter(|line| line.contains("WARN") && line.contains("mirror pod")).count();
        ensure!(count == 1, "{count} warnings about one mirror pod");
    }
    node.kubectl(&["create", "namespace", &namespace]).await?;
    node.wait("the pod is mirrored", async || {
        let phase = ["get", "pod", &name, "--namespace", &namespace, "-o", "jsonpath={.status.phase}"];
        let phase = node.plane.kubectl(&phase).await?;
        ensure!(phase == "Running", "phase {phase:?}");
        Ok(())
    })
    .await?;
    node.kubectl(&["delete", "namespace", &namespace, "--wait=false"]).await?;
    node.end()
}
