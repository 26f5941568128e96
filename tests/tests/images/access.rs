//! Access to images that are already present.

use std::fs;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, podward_only, scenarios, sleeper, with};
use serde_json::{Value, json};
use testkit::images::DEMO;
use testkit::registry::{Registry, RegistryOptions};

scenarios!(pulls_are_recorded_on_disk, preloaded_images_can_require_credentials);

// Upstream's static pods cannot use pull secrets.
podward_only!(private_image_stays_private_after_agent_kill);

/// `user:password`.
const RIGHT: &str = "dXNlcjpwYXNzd29yZA==";

fn user_of(name: &str, image: &str, policy: &str) -> Value {
    let pod = with(sleeper(name), "/spec/containers/0/image", json!(image));
    with(pod, "/spec/containers/0/imagePullPolicy", json!(policy))
}

async fn wait_reason(node: &Node, pod: &str, reasons: &[&str]) -> Result<()> {
    node.wait_pod(pod, "is refused", |pod| reasons.contains(&pod.container("main").reason.as_str())).await?;
    Ok(())
}

/// The agent's records of pulled images.
fn records(node: &Node) -> Result<Vec<Value>> {
    let folder = node.agent.root().join("image_manager/pulled");
    let mut records = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
        records.push(serde_json::from_slice(&fs::read(entry?.path())?)?);
    }
    Ok(records)
}

async fn pulls_are_recorded_on_disk(agent: Agent) -> Result<()> {
    let registry = Registry::start(RegistryOptions::default()).await?;
    let node = Node::start(agent).await?;
    node.write("web.json", &user_of("web", &registry.image("app:1"), "IfNotPresent"))?;
    node.wait_running("web").await?;
    let records = records(&node)?;
    ensure!(records.len() == 1, "{records:?}");
    let record = &records[0];
    ensure!(record["kind"] == "ImagePulledRecord", "{record}");
    ensure!(record["apiVersion"] == "kubelet.config.k8s.io/v1beta1", "{record}");
    ensure!(record["imageRef"].as_str().is_some_and(|id| id.starts_with("sha256:")), "{record}");
    let name = registry.image("app");
    ensure!(record["credentialMapping"] == json!({name: {"nodePodsAccessible": true}}), "{record}");
    let begun = fs::read_dir(node.agent.root().join("image_manager/pulling"))?.count();
    ensure!(begun == 0, "{begun} pulls are said to be under way");
    Ok(())
}

async fn preloaded_images_can_require_credentials(agent: Agent) -> Result<()> {
    let overlay = json!({
        "imagePullCredentialsVerificationPolicy": "NeverVerifyAllowlistedImages",
        "preloadedImagesVerificationAllowlist": ["example.com/trusted/*"],
    });
    let node = Node::start_with(agent, &AgentOptions { overlay, ..AgentOptions::default() }).await?;
    node.write("web.json", &user_of("web", DEMO, "Never"))?;
    wait_reason(&node, "web", &["ErrImageNeverPull"]).await?;
    let pod = serde_json::to_value(node.api_pod("web").await?)?;
    let message = pod.pointer("/status/containerStatuses/0/state/waiting/message").and_then(Value::as_str);
    let expected = format!("Container image {DEMO:?} is not present with pull policy of Never");
    ensure!(message == Some(&expected), "{message:?}");
    Ok(())
}

async fn private_image_stays_private_after_agent_kill(agent: Agent) -> Result<()> {
    let options = RegistryOptions { password: Some(RIGHT.to_owned()), ..RegistryOptions::default() };
    let registry = Registry::start(options).await?;
    let mut node = Node::start(agent).await?;
    let auths = json!({"auths": {(registry.host()): {"auth": RIGHT}}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "opener"}, "stringData": {".dockerconfigjson": auths.to_string()},
    });
    node.write("opener.json", &secret)?;
    let image = registry.image("app:1");
    let owner = |name: &str| {
        with(user_of(name, &image, "IfNotPresent"), "/spec/imagePullSecrets", json!([{"name": "opener"}]))
    };
    node.write("owner.json", &owner("owner"))?;
    node.wait_running("owner").await?;
    node.write("stranger.json", &user_of("stranger", &image, "IfNotPresent"))?;
    node.write("silent.json", &user_of("silent", &image, "Never"))?;
    wait_reason(&node, "stranger", &["ErrImagePull", "ImagePullBackOff"]).await?;
    wait_reason(&node, "silent", &["ErrImageNeverPull"]).await?;
    let requested = registry.lookups("app:1");
    node.agent.kill9()?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.write("friend.json", &owner("friend"))?;
    node.wait_running("friend").await?;
    wait_reason(&node, "stranger", &["ErrImagePull", "ImagePullBackOff"]).await?;
    ensure!(
        registry.lookups("app:1") == requested,
        "the registry was asked for what the secret had opened before"
    );
    ensure!(node.pod("owner").await?.all_running(), "the owner is not running");
    Ok(())
}
