//! Start without a control plane, as after a power failure without network.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::mount::UnmountFlags;
use scenarios::{Agent, ClusterNode, container, pod, podward_only, with};
use serde_json::json;
use testkit::poll::{eventually, throughout};

podward_only!(pods_start_after_reboot_without_control_plane);

async fn pods_start_after_reboot_without_control_plane(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "blue"}});
    node.apply(&settings).await?;
    let web = pod("web", [container("main", "env -- sleep forever")]);
    let web = with(web, "/spec/containers/0/envFrom", json!([{"configMapRef": {"name": "settings"}}]));
    let web = with(web, "/spec/volumes", json!([{"name": "settings", "configMap": {"name": "settings"}}]));
    let mounts = json!([{"name": "settings", "mountPath": "/settings"}]);
    node.apply(&with(web, "/spec/containers/0/volumeMounts", mounts)).await?;
    node.wait_running("web").await?;
    let before = node.running("web").await?;
    let memory = node.agent.root().join("podward/api");
    eventually("everything is cached", Duration::from_secs(30), async || {
        for name in ["pods", "objects", "tokens", "services"] {
            let age =
                fs::metadata(memory.join(name)).and_then(|file| file.modified()).context(name)?.elapsed()?;
            ensure!(age > Duration::from_secs(5), "{name} may still change");
        }
        Ok(())
    })
    .await?;

    node.agent.kill9()?;
    node.plane.stop_api_server()?;
    node.cri().remove_all().await?;
    unmount_below(&node.agent.root())?;
    node.agent.start()?;
    eventually("the pod runs again", Duration::from_secs(60), async || {
        let running = node.running("web").await?;
        ensure!(running.len() == 1 && running != before, "{running:?}");
        Ok(())
    })
    .await?;
    let again = node.running("web").await?;
    eventually("the ConfigMap is there", Duration::from_secs(30), async || {
        let log = node.log("web", "main").await?;
        ensure!(log.contains("colour=blue"), "{log:?}");
        Ok(())
    })
    .await?;

    node.plane.start_api_server().await?;
    node.agent.wait_ready().await?;
    node.wait_schedulable().await?;
    node.wait_running("web").await?;
    throughout("nothing changes when the control plane returns", Duration::from_secs(10), async || {
        ensure!(node.running("web").await? == again, "restarted");
        Ok(())
    })
    .await?;
    node.end()
}

/// Removes mounts, like a reboot.
fn unmount_below(folder: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mounts").context("read the mount table")?;
    let below = table
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|path| Path::new(path).starts_with(folder));
    for path in below.collect::<Vec<_>>().into_iter().rev() {
        rustix::mount::unmount(path, UnmountFlags::DETACH).with_context(|| format!("unmount {path}"))?;
    }
    Ok(())
}
