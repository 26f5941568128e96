//! hostPath and emptyDir.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::poll::eventually;

scenarios!(
    host_path_is_read_and_written,
    empty_dir_is_shared_and_survives_container_restart,
    memory_empty_dir_is_a_tmpfs
);

fn mounted(arguments: &str, name: &str, path: &str) -> Value {
    with(container("main", arguments), "/volumeMounts", json!([{"name": name, "mountPath": path}]))
}

async fn host_path_is_read_and_written(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let folder = node.runtime.instance().path("host");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("in"), "from the host\n")?;
    let manifest =
        pod("web", [mounted("cat /host/in -- write /host/out done -- sleep forever", "host", "/host")]);
    let volumes = json!([{"name": "host", "hostPath": {"path": folder, "type": "Directory"}}]);
    node.write("web.json", &with(manifest, "/spec/volumes", volumes))?;
    node.wait_running("web").await?;
    eventually("file on the host", Duration::from_secs(10), async || {
        let text = std::fs::read_to_string(folder.join("out")).context("read")?;
        ensure!(text == "done\n", "{text}");
        Ok(())
    })
    .await?;
    ensure!(node.log("web", "main").await? == "from the host\n");
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    ensure!(folder.join("out").exists(), "a host folder was cleaned");
    Ok(())
}

async fn empty_dir_is_shared_and_survives_container_restart(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let mount = json!([{"name": "scratch", "mountPath": "/scratch"}]);
    let writer = with(
        container("writer", "append /scratch/runs x -- exit 1 --after 1"),
        "/volumeMounts",
        mount.clone(),
    );
    let reader = with(container("reader", "sleep forever"), "/volumeMounts", mount);
    let manifest =
        with(pod("web", [writer, reader]), "/spec/volumes", json!([{"name": "scratch", "emptyDir": {}}]));
    node.write("web.json", &manifest)?;
    let pod = node.wait_pod("web", "has restarted", |pod| pod.container("writer").restarts == 1).await?;
    let folder =
        node.agent.root().join("pods").join(&pod.uid).join("volumes/kubernetes.io~empty-dir/scratch");
    let seen = folder.join("runs");
    eventually("two lines in the volume", Duration::from_secs(10), async || {
        let text = std::fs::read_to_string(&seen).with_context(|| format!("read {}", seen.display()))?;
        ensure!(text == "x\nx\n", "{text:?}");
        Ok(())
    })
    .await?;
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    eventually("volume removed", Duration::from_secs(30), async || {
        ensure!(!folder.exists(), "{} is still there", folder.display());
        Ok(())
    })
    .await
}

async fn memory_empty_dir_is_a_tmpfs(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = pod("web", [mounted("mounts -- write /fast/x y -- sleep forever", "fast", "/fast")]);
    let volumes = json!([{"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}]);
    node.write("web.json", &with(manifest, "/spec/volumes", volumes))?;
    let pod = node.wait_running("web").await?;
    let mounts = eventually("mount table in the log", Duration::from_secs(10), async || {
        let log = node.log("web", "main").await?;
        ensure!(log.contains(" /fast "), "no such mount");
        Ok(log)
    })
    .await?;
    let line = mounts.lines().find(|line| line.contains(" /fast ")).unwrap_or_default();
    ensure!(line.contains("tmpfs") && line.contains("size=8192k"), "{line}");
    let folder = node.agent.root().join("pods").join(&pod.uid).join("volumes/kubernetes.io~empty-dir/fast");
    let text = folder.display().to_string();
    ensure!(testkit::process::mount_points().contains(&text), "{text} is not a mount point");
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    eventually("tmpfs unmounted", Duration::from_secs(30), async || {
        ensure!(!testkit::process::mount_points().contains(&text), "{text} is still mounted");
        ensure!(!folder.exists(), "{text} is still there");
        Ok(())
    })
    .await
}
