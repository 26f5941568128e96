//! Image presence and pulls.

use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, sleeper, with};
use serde_json::json;
use testkit::images::DEMO_2;
use testkit::poll::throughout;

scenarios!(
    missing_image_backs_off_without_blocking_other_pods,
    pull_policy_never_requires_the_image,
    invalid_image_name_is_reported
);

/// A registry that refuses connections at once.
const UNREACHABLE: &str = "127.0.0.1:1/missing:1";

async fn missing_image_backs_off_without_blocking_other_pods(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = pod("web", [container("good", "sleep forever"), container("bad", "sleep forever")]);
    let manifest = with(manifest, "/metadata/uid", json!("22222222-2222-3333-4444-555555555555"));
    let broken = with(manifest.clone(), "/spec/containers/1/image", json!(UNREACHABLE));
    node.write("web.json", &broken)?;
    node.write("other.json", &sleeper("other"))?;
    let (mut failed, mut backed_off) = (false, false);
    let pod = node
        .wait_pod("web", "backs off the pull", |pod| {
            let reason = pod.container("bad").reason;
            // Podward's own runtime reports that no registry answers; containerd only that the pull failed.
            failed |= reason == "ErrImagePull" || reason == "RegistryUnavailable";
            backed_off |= reason == "ImagePullBackOff";
            failed && backed_off
        })
        .await?;
    ensure!(pod.container("good").state == "running" && pod.phase == "Pending", "{pod:?}");
    node.wait_running("other").await?;
    node.write("web.json", &with(manifest, "/spec/containers/1/image", json!(DEMO_2)))?;
    let pod = node.wait_running("web").await?;
    ensure!(pod.container("good").restarts == 0 && pod.container("bad").restarts == 0, "{pod:?}");
    Ok(())
}

async fn pull_policy_never_requires_the_image(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let never = |name: &str, image: &str| {
        let manifest = with(sleeper(name), "/spec/containers/0/imagePullPolicy", json!("Never"));
        with(manifest, "/spec/containers/0/image", json!(image))
    };
    node.write("absent.json", &never("absent", UNREACHABLE))?;
    node.write("present.json", &never("present", DEMO_2))?;
    node.wait_running("present").await?;
    node.wait_pod("absent", "says why", |pod| pod.container("main").reason == "ErrImageNeverPull").await?;
    throughout("the reason stays", Duration::from_secs(3), async || {
        let pod = node.pod("absent").await?;
        ensure!(pod.container("main").reason == "ErrImageNeverPull" && pod.phase == "Pending", "{pod:?}");
        Ok(())
    })
    .await
}

async fn invalid_image_name_is_reported(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &with(sleeper("web"), "/spec/containers/0/image", json!("Not/A/Name")))?;
    node.wait_pod("web", "says why", |pod| pod.container("main").reason == "InvalidImageName").await?;
    Ok(())
}
