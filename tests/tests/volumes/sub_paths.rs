//! Subpaths of volumes.

use std::os::unix::fs::symlink;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, scenarios, with};
use serde_json::json;

use super::{folder, log_with, pod_with, remove, waiting_message};

scenarios!(
    mounts_subpaths_of_volumes,
    reports_missing_variable_in_subpath,
    rejects_subpath_outside_its_volume
);

async fn mounts_subpaths_of_volumes(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    let host = node.runtime.instance().path("host");
    std::fs::create_dir_all(&host)?;
    std::fs::write(host.join("settings"), "from the host\n")?;
    let mounts = json!([
        {"name": "scratch", "mountPath": "/whole"},
        {"name": "scratch", "mountPath": "/part", "subPath": "deep/er"},
        {"name": "scratch", "mountPath": "/own", "subPathExpr": "logs/$(NAME)"},
        {"name": "host", "mountPath": "/etc/settings", "subPath": "settings", "readOnly": true},
    ]);
    let volumes = json!([{"name": "scratch", "emptyDir": {}}, {"name": "host", "hostPath": {"path": host}}]);
    let script =
        "touch /part/a /own/b; find /whole -type f | sort; cat /etc/settings; ls -ld /part; echo done";
    let manifest = pod_with("web", script, mounts, volumes);
    let env = json!([{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    node.write("web.json", &with(manifest, "/spec/containers/0/env", env))?;
    let log = log_with(&node, "web", "done").await?;
    let pod = node.pod("web").await?;
    ensure!(
        log.starts_with(&format!("/whole/deep/er/a\n/whole/logs/{}/b\nfrom the host\ndrwxrwxrwx", pod.name)),
        "{log}"
    );
    let parts = folder(&node, "web").await?.join("volume-subpaths");
    let points = testkit::process::mount_points();
    for place in ["scratch/main/1", "scratch/main/2", "host/main/3"] {
        ensure!(points.contains(&parts.join(place).display().to_string()), "{place} is not mounted");
    }
    // A restarted agent finds the existing mounts and adds no second ones.
    node.restart_agent().await?;
    node.wait_running("web").await?;
    let again = testkit::process::mount_points();
    let count = |points: &[String]| points.iter().filter(|point| point.contains(&pod.uid)).count();
    ensure!(count(&again) == count(&points), "{again:?}");
    remove(&node, "web").await?;
    ensure!(std::fs::read_to_string(host.join("settings"))? == "from the host\n");
    Ok(())
}

async fn reports_missing_variable_in_subpath(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let mounts = json!([{"name": "v", "mountPath": "/own", "subPathExpr": "$(ABSENT)/x"}]);
    node.write("web.json", &pod_with("web", "echo up", mounts, json!([{"name": "v", "emptyDir": {}}])))?;
    let message = waiting_message(&node, "web", "CreateContainerConfigError").await?;
    ensure!(message == "missing value for ABSENT", "{message}");
    remove(&node, "web").await
}

async fn rejects_subpath_outside_its_volume(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let host = node.runtime.instance().path("host");
    let outside = node.runtime.instance().path("outside");
    std::fs::create_dir_all(&host)?;
    std::fs::create_dir_all(&outside)?;
    symlink(&outside, host.join("link"))?;
    symlink(outside.join("made"), host.join("dangling"))?;
    let volumes = json!([{"name": "v", "hostPath": {"path": host}}]);
    for (name, path) in [("link", "link"), ("below", "link/made"), ("dangling", "dangling")] {
        let mounts = json!([{"name": "v", "mountPath": "/out", "subPath": path}]);
        node.write(&format!("{name}.json"), &pod_with(name, "echo up", mounts, volumes.clone()))?;
        let message = waiting_message(&node, name, "CreateContainerConfigError").await?;
        let refused = ["prepare subPath", "create subPath directory"]
            .map(|what| format!("failed to {what} for volumeMount \"v\" of container \"main\""));
        ensure!(refused.contains(&message), "{name}: {message}");
    }
    let made = std::fs::read_dir(&outside)?.next();
    ensure!(made.is_none(), "a file was created outside");
    node.pod("link").await.context("still known")?;
    Ok(())
}
