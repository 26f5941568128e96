//! Manifests and helpers that several scenarios share.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::Node;
use serde_json::{Value, json};
use testkit::poll::eventually;

/// Long enough for a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(crate) fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
}

/// Path of a pod's volume on the host.
pub(crate) async fn volume(node: &Node, pod: &str, plugin: &str, name: &str) -> Result<PathBuf> {
    let uid = node.pod(pod).await?.uid;
    Ok(node
        .agent
        .root()
        .join("pods")
        .join(uid)
        .join("volumes")
        .join(format!("kubernetes.io~{plugin}"))
        .join(name))
}

/// Waits until a file has the text.
pub(crate) async fn wait_file(path: PathBuf, expected: &str) -> Result<()> {
    eventually(&format!("{} says {expected:?}", path.display()), TIMEOUT, async || {
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        ensure!(text == expected, "{text:?}");
        Ok(())
    })
    .await
}

/// The lines of a container's log that start with one of the prefixes, sorted.
pub(crate) async fn lines(node: &Node, pod: &str, container: &str, prefix: &str) -> Result<Vec<String>> {
    let log = node.log(pod, container).await?;
    let mut lines: Vec<String> =
        log.lines().filter(|line| line.starts_with(prefix)).map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

/// Waits until a container is waiting with this reason and a message that contains the text.
pub(crate) async fn wait_waiting(node: &Node, pod: &str, reason: &str, text: &str) -> Result<()> {
    eventually(&format!("pod {pod} waits: {reason}"), TIMEOUT, async || {
        let status = node.api_pod(pod).await?.status.context("status")?;
        let states = status.container_statuses.unwrap_or_default();
        let waiting =
            states.into_iter().filter_map(|status| status.state?.waiting).next().context("waiting")?;
        ensure!(waiting.reason.as_deref() == Some(reason), "{waiting:?}");
        ensure!(waiting.message.as_deref().unwrap_or_default().contains(text), "{waiting:?}");
        Ok(())
    })
    .await
}
