//! Volumes as seen by containers, and their remains on the host.

mod images;
mod interruptions;
mod sub_paths;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::images::BUSYBOX;
use testkit::poll::eventually;

scenarios!(
    fs_group_owns_pod_volumes,
    wrong_host_path_is_reported_and_recovers,
    unmounted_volumes_are_not_set_up,
    mount_propagation_follows_the_spec,
    read_only_mounts_cannot_be_written,
    recursive_read_only_requires_runtime_support,
);

const TIMEOUT: Duration = Duration::from_secs(60);

/// A container that runs a shell script and then waits.
#[expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]
pub(crate) fn shell(name: &str, script: &str, mounts: Value) -> Value {
    let script = format!("{script}; trap 'exit 0' TERM; while true; do sleep 1 & wait; done");
    json!({"name": name, "image": BUSYBOX, "command": ["/bin/sh", "-c", script], "volumeMounts": mounts})
}

/// A pod of one such container, `main`.
pub(crate) fn pod_with(name: &str, script: &str, mounts: Value, volumes: Value) -> Value {
    with(pod(name, [shell("main", script, mounts)]), "/spec/volumes", volumes)
}

/// The log of `main`, once it contains the text.
pub(crate) async fn log_with(node: &Node, name: &str, text: &str) -> Result<String> {
    eventually(&format!("{text:?} in the log of {name}"), TIMEOUT, async || {
        let log = node.log(name, "main").await?;
        ensure!(log.contains(text), "{log}");
        Ok(log)
    })
    .await
}

/// Waits until `main` is waiting with this reason; returns the message.
pub(crate) async fn waiting_message(node: &Node, name: &str, reason: &str) -> Result<String> {
    eventually(&format!("{name} waits for {reason}"), TIMEOUT, async || {
        let pod = node.api_pod(name).await?;
        let statuses = pod.status.unwrap_or_default().container_statuses.unwrap_or_default();
        let waiting =
            statuses.first().and_then(|status| status.state.clone()?.waiting).context("not waiting")?;
        ensure!(waiting.reason.as_deref() == Some(reason), "{waiting:?}");
        Ok(waiting.message.unwrap_or_default())
    })
    .await
}

/// The folder of a pod on the host.
pub(crate) async fn folder(node: &Node, name: &str) -> Result<PathBuf> {
    Ok(node.agent.root().join("pods").join(node.pod(name).await?.uid))
}

/// Removes a pod and waits until its folder and all mounts in it are removed.
pub(crate) async fn remove(node: &Node, name: &str) -> Result<()> {
    let folder = folder(node, name).await?;
    node.remove(&format!("{name}.json"))?;
    node.wait_gone(name).await?;
    let text = folder.display().to_string();
    eventually("the pod's folder is removed", TIMEOUT, async || {
        let left: Vec<_> =
            testkit::process::mount_points().into_iter().filter(|point| point.starts_with(&text)).collect();
        ensure!(left.is_empty(), "still mounted: {left:?}");
        ensure!(!folder.exists(), "{text} is still there");
        Ok(())
    })
    .await
}

async fn fs_group_owns_pod_volumes(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let host = node.runtime.instance().path("host");
    std::fs::create_dir_all(&host)?;
    let script =
        "touch /disk/file /memory/file && ls -nd /disk /memory /host /disk/file /memory/file; echo done";
    let mounts = json!([
        {"name": "disk", "mountPath": "/disk"},
        {"name": "memory", "mountPath": "/memory"},
        {"name": "host", "mountPath": "/host"},
    ]);
    let volumes = json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
        {"name": "host", "hostPath": {"path": host}},
    ]);
    let manifest = pod_with("web", script, mounts, volumes);
    let context = json!({"fsGroup": 4321, "runAsUser": 1000, "runAsGroup": 1000});
    node.write("web.json", &with(manifest, "/spec/securityContext", context))?;
    let log = log_with(&node, "web", "done").await?;
    for (path, mode) in [("/disk", "drwxrwsrwx"), ("/memory", "drwxrwsrwt")] {
        let line = log.lines().find(|line| line.ends_with(path)).with_context(|| log.clone())?;
        ensure!(line.starts_with(mode) && line.contains(" 0        4321"), "{line}");
        // The group is inherited, so that it owns the files of all containers.
        let file = format!("{path}/file");
        let line = log.lines().find(|line| line.ends_with(&file)).with_context(|| log.clone())?;
        ensure!(line.contains(" 1000     4321"), "{line}");
    }
    ensure!(std::fs::metadata(&host)?.gid() == 0, "the host's folder changed its owner");
    remove(&node, "web").await
}

async fn wrong_host_path_is_reported_and_recovers(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let path = node.runtime.instance().path("host-path");
    std::fs::write(&path, "a file")?;
    let volumes = json!([{"name": "host", "hostPath": {"path": path, "type": "Directory"}}]);
    node.write(
        "web.json",
        &pod_with("web", "echo up", json!([{"name": "host", "mountPath": "/host"}]), volumes),
    )?;
    let text = format!("hostPath type check failed: {} is not a directory", path.display());
    node.agent.wait_log(&text, TIMEOUT).await?;
    waiting_message(&node, "web", "ContainerCreating").await?;
    std::fs::remove_file(&path)?;
    std::fs::create_dir(&path)?;
    log_with(&node, "web", "up").await?;
    remove(&node, "web").await
}

async fn unmounted_volumes_are_not_set_up(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let missing = node.runtime.instance().path("missing");
    let volumes = json!([
        {"name": "used", "emptyDir": {}},
        {"name": "unused", "hostPath": {"path": missing, "type": "Directory"}},
        {"name": "spare", "emptyDir": {}},
    ]);
    node.write(
        "web.json",
        &pod_with("web", "echo up", json!([{"name": "used", "mountPath": "/used"}]), volumes),
    )?;
    log_with(&node, "web", "up").await?;
    let plugin = folder(&node, "web").await?.join("volumes/kubernetes.io~empty-dir");
    ensure!(plugin.join("used").exists() && !plugin.join("spare").exists());
    remove(&node, "web").await
}

async fn mount_propagation_follows_the_spec(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let mounts = json!([
        {"name": "v", "mountPath": "/none"},
        {"name": "v", "mountPath": "/slave", "mountPropagation": "HostToContainer"},
        {"name": "v", "mountPath": "/shared", "mountPropagation": "Bidirectional"},
    ]);
    let manifest = pod_with(
        "web",
        "cat /proc/self/mountinfo; echo done",
        mounts,
        json!([{"name": "v", "emptyDir": {}}]),
    );
    let manifest = with(manifest, "/spec/containers/0/securityContext", json!({"privileged": true}));
    node.write("web.json", &manifest)?;
    let log = log_with(&node, "web", "done").await?;
    for (path, tags) in
        [(" /none ", [false, false]), (" /slave ", [true, false]), (" /shared ", [false, true])]
    {
        let line = log.lines().find(|line| line.contains(path)).with_context(|| log.clone())?;
        let found = ["master:", "shared:"].map(|tag| line.contains(tag));
        ensure!(found[1] == tags[1] && (found[0] || !tags[0]), "{line}");
    }
    remove(&node, "web").await
}

async fn read_only_mounts_cannot_be_written(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let mounts =
        json!([{"name": "v", "mountPath": "/w"}, {"name": "v", "mountPath": "/r", "readOnly": true}]);
    let script = "touch /w/file; touch /r/other; ls /r; echo done";
    node.write("web.json", &pod_with("web", script, mounts, json!([{"name": "v", "emptyDir": {}}])))?;
    let log = log_with(&node, "web", "done").await?;
    ensure!(
        log.contains("Read-only file system") && log.contains("file\n") && !log.contains("other\n"),
        "{log}"
    );
    remove(&node, "web").await
}

async fn recursive_read_only_requires_runtime_support(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let mounts =
        |mode: &str| json!([{"name": "v", "mountPath": "/r", "readOnly": true, "recursiveReadOnly": mode}]);
    let volumes = json!([{"name": "v", "emptyDir": {}}]);
    node.write("must.json", &pod_with("must", "echo up", mounts("Enabled"), volumes.clone()))?;
    node.write("may.json", &pod_with("may", "echo up", mounts("IfPossible"), volumes))?;
    let message = waiting_message(&node, "must", "CreateContainerConfigError").await?;
    ensure!(
        message
            == "failed to resolve recursive read-only mode: volume \"v\" requested recursive read-only mode, but it is not supported by the runtime",
        "{message}"
    );
    log_with(&node, "may", "up").await?;
    Ok(())
}
