//! Add, edit, remove and re-create.

use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, sleeper, with};
use serde_json::json;
use testkit::images::DEMO_2;
use testkit::poll::eventually;

scenarios!(
    added_pod_runs,
    removed_pod_is_stopped_and_its_folder_deleted,
    image_change_with_fixed_uid_restarts_only_that_container,
    other_edit_with_fixed_uid_restarts_nothing,
    edit_without_uid_replaces_the_pod,
    recreated_pod_with_same_uid_runs_after_removal,
    recreated_pod_with_same_uid_runs_after_termination,
    manifest_that_is_removed_and_back_at_once_restarts_the_pod,
    starts_thirty_pods_at_once,
    termination_uses_the_grace_period_only_when_needed,
);

const UID: &str = "11111111-2222-3333-4444-555555555555";

async fn added_pod_runs(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &pod("web", [container("main", "serve --text hello")]))?;
    let pod = node.wait_running("web").await?;
    ensure!(pod.container("main").restarts == 0 && pod.container("main").ready, "{pod:?}");
    ensure!(pod.ip.starts_with(&node.runtime.instance().subnet()), "pod IP {}", pod.ip);
    let answer = eventually("answer from the pod", Duration::from_secs(10), async || {
        testkit::http::get_from(&pod.ip, 8080, "/").await
    });
    let text = String::from_utf8(answer.await?.body)?;
    ensure!(text == "hello\npod web-node-a on host name web-node-a\n", "{text}");
    Ok(())
}

async fn removed_pod_is_stopped_and_its_folder_deleted(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &sleeper("web"))?;
    node.write("other.json", &sleeper("other"))?;
    let web = node.wait_running("web").await?;
    let other = node.wait_running("other").await?;
    let folder = node.agent.root().join("pods").join(&web.uid);
    ensure!(folder.exists(), "{} is missing", folder.display());
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    eventually("pod folder removed", Duration::from_secs(30), async || {
        ensure!(!folder.exists(), "{} is still there", folder.display());
        Ok(())
    })
    .await?;
    ensure!(node.pod("other").await? == other, "the other pod changed");
    Ok(())
}

async fn image_change_with_fixed_uid_restarts_only_that_container(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let first = pod("web", [container("a", "sleep forever"), container("b", "sleep forever")]);
    let first = with(first, "/metadata/uid", json!(UID));
    node.write("web.json", &first)?;
    let before = node.wait_running("web").await?;
    ensure!(before.uid == UID, "uid {}", before.uid);
    node.write("web.json", &with(first, "/spec/containers/0/image", json!(DEMO_2)))?;
    let after = node
        .wait_pod("web", "runs the new image", |pod| pod.all_running() && pod.container("a").restarts == 1)
        .await?;
    ensure!(after.uid == UID && after.container("b") == before.container("b"), "{before:?}\n{after:?}");
    let running = node.running("web").await?;
    let images: Vec<_> = running.iter().map(|view| (view.name.as_str(), view.attempt)).collect();
    ensure!(images.contains(&("a", 1)) && images.contains(&("b", 0)) && images.len() == 2, "{images:?}");
    let sandboxes = node.cri().sandboxes_of("web-node-a").await?;
    ensure!(sandboxes.len() == 1, "{} sandboxes", sandboxes.len());
    Ok(())
}

async fn other_edit_with_fixed_uid_restarts_nothing(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let first = with(sleeper("web"), "/metadata/uid", json!(UID));
    node.write("web.json", &first)?;
    let before = node.wait_running("web").await?;
    let labelled = with(first, "/metadata/labels", json!({"tier": "front"}));
    node.write("web.json", &labelled)?;
    eventually("new label is visible", Duration::from_secs(30), async || {
        let labels = node.api_pod("web").await?.metadata.labels.unwrap_or_default();
        ensure!(labels.get("tier").is_some_and(|tier| tier == "front"), "{labels:?}");
        Ok(())
    })
    .await?;
    // Only name and image determine a restart; arguments are not part of the hash.
    node.write("web.json", &with(labelled, "/spec/containers/0/args", json!(["sleep", "1000"])))?;
    testkit::poll::throughout("same container", Duration::from_secs(4), async || {
        let now = node.pod("web").await?;
        ensure!(now == before, "{before:?}\n{now:?}");
        Ok(())
    })
    .await
}

async fn edit_without_uid_replaces_the_pod(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    // Takes a second to stop, so that an overlap of old and new would be visible.
    let manifest = pod("web", [container("main", "sleep forever --ignore-term")]);
    let manifest = with(manifest, "/spec/terminationGracePeriodSeconds", json!(2));
    node.write("web.json", &manifest)?;
    let before = node.wait_running("web").await?;
    let old = node.only_running("web").await?;
    node.write("web.json", &with(manifest, "/spec/containers/0/env", json!([{"name": "A", "value": "b"}])))?;
    let after =
        node.wait_pod("web", "is a new pod", |pod| pod.uid != before.uid && pod.all_running()).await?;
    let new = node.only_running("web").await?;
    ensure!(after.container("main").restarts == 0, "{after:?}");
    let old = node.cri().containers_of("web-node-a").await?.into_iter().find(|view| view.id == old.id);
    if let Some(old) = old {
        ensure!(old.finished_at > 0 && old.finished_at <= new.created_at, "old and new pod overlap");
    }
    Ok(())
}

async fn recreated_pod_with_same_uid_runs_after_removal(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = with(sleeper("web"), "/metadata/uid", json!(UID));
    node.write("web.json", &manifest)?;
    node.wait_running("web").await?;
    let old = node.only_running("web").await?;
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    node.write("web.json", &manifest)?;
    // The old status may be shown until the new pod is observed.
    eventually("a new container runs", Duration::from_secs(60), async || {
        ensure!(node.only_running("web").await?.id != old.id, "still the old one");
        Ok(())
    })
    .await?;
    let again = node.wait_running("web").await?;
    ensure!(again.uid == UID, "{again:?}");
    Ok(())
}

async fn recreated_pod_with_same_uid_runs_after_termination(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = pod("web", [container("main", "sleep forever --ignore-term")]);
    let manifest = with(manifest, "/metadata/uid", json!(UID));
    node.write("web.json", &manifest)?;
    node.wait_running("web").await?;
    let old = node.only_running("web").await?;
    node.remove("web.json")?;
    eventually("removal is detected", Duration::from_secs(10), async || {
        ensure!(node.pod("web").await.is_err(), "still listed");
        Ok(())
    })
    .await?;
    node.write("web.json", &manifest)?;
    eventually("a new container runs", Duration::from_secs(60), async || {
        let running = node.only_running("web").await?;
        ensure!(running.id != old.id, "still the old one");
        Ok(())
    })
    .await?;
    let pod = node.wait_running("web").await?;
    ensure!(pod.uid == UID, "{pod:?}");
    Ok(())
}

async fn manifest_that_is_removed_and_back_at_once_restarts_the_pod(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = sleeper("web");
    node.write("web.json", &manifest)?;
    let before = node.wait_running("web").await?;
    let old = node.only_running("web").await?;
    // A rename over the file with the same content changes nothing.
    node.write("web.json", &manifest)?;
    testkit::poll::throughout("same container", Duration::from_secs(3), async || {
        ensure!(node.only_running("web").await?.id == old.id, "the pod was restarted");
        Ok(())
    })
    .await?;
    node.remove("web.json")?;
    node.write("web.json", &manifest)?;
    eventually("a new container runs", Duration::from_secs(60), async || {
        ensure!(node.only_running("web").await?.id != old.id, "still the old one");
        Ok(())
    })
    .await?;
    let after = node.wait_running("web").await?;
    ensure!(after.uid == before.uid, "{before:?}\n{after:?}");
    Ok(())
}

async fn starts_thirty_pods_at_once(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let names: Vec<String> = (0..30).map(|number| format!("pod-{number:02}")).collect();
    for name in &names {
        node.write(&format!("{name}.json"), &sleeper(name))?;
    }
    for name in &names {
        node.wait_running(name).await?;
    }
    let containers = node.cri().containers().await?;
    let sandboxes = node.cri().sandboxes().await?;
    ensure!(containers.len() == 30, "{} containers", containers.len());
    ensure!(sandboxes.len() == 30, "{} sandboxes", sandboxes.len());
    ensure!(containers.iter().all(|view| view.attempt == 0 && view.running()), "{containers:?}");
    let mut ips: Vec<String> = Vec::new();
    for name in &names {
        ips.push(node.pod(name).await?.ip);
    }
    ips.sort();
    ips.dedup();
    ensure!(ips.len() == 30 && !ips.contains(&String::new()), "{ips:?}");
    for name in &names {
        node.remove(&format!("{name}.json"))?;
    }
    for name in &names {
        node.wait_gone(name).await?;
    }
    Ok(())
}

async fn termination_uses_the_grace_period_only_when_needed(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let polite = pod("polite", [container("main", "sleep forever --exit 5")]);
    let deaf = pod("deaf", [container("main", "sleep forever --ignore-term")]);
    node.write("polite.json", &with(polite, "/spec/terminationGracePeriodSeconds", json!(300)))?;
    node.write("deaf.json", &with(deaf, "/spec/terminationGracePeriodSeconds", json!(4)))?;
    node.wait_running("polite").await?;
    node.wait_running("deaf").await?;
    node.remove("polite.json")?;
    // The timeout of `wait_gone` is much shorter than 300 s.
    node.wait_gone("polite").await?;
    let removed = std::time::Instant::now();
    node.remove("deaf.json")?;
    node.wait_gone("deaf").await?;
    ensure!(removed.elapsed() >= Duration::from_secs(4), "stopped after {:?}", removed.elapsed());
    Ok(())
}
