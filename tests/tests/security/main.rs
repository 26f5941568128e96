//! Admission, identity and confinement of pods; on Debian's containerd unless noted otherwise.

mod admission;
mod confinement;
mod files;
mod identity;
mod namespaces;
mod refusals;

use anyhow::{Context, Result};
use scenarios::Node;

/// The value of a line such as `Uid: 1000 ...` in the output of `demo id`.
fn line<'a>(log: &'a str, name: &str) -> Result<&'a str> {
    let found = log.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.map(str::trim).with_context(|| format!("no {name} in:\n{log}"))
}

async fn verdict(node: &Node, name: &str) -> Result<(String, String, String)> {
    let status = node.api_pod(name).await?.status.unwrap_or_default();
    Ok((
        status.phase.unwrap_or_default(),
        status.reason.unwrap_or_default(),
        status.message.unwrap_or_default(),
    ))
}

/// Waits until a pod is rejected; returns reason and message.
async fn refused(node: &Node, name: &str) -> Result<(String, String)> {
    node.wait_pod(name, "is refused", |pod| pod.phase == "Failed").await?;
    let (_, reason, message) = verdict(node, name).await?;
    Ok((reason, message))
}

/// Reason and message of a waiting container.
async fn waiting(node: &Node, name: &str, container: &str) -> Result<(String, String)> {
    let status = node.api_pod(name).await?.status.unwrap_or_default();
    let statuses = status.container_statuses.unwrap_or_default();
    let found = statuses.into_iter().find(|status| status.name == container).context("no such container")?;
    let waiting = found.state.and_then(|state| state.waiting).context("it does not wait")?;
    Ok((waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default()))
}
