//! Runs kubectl with data on its standard streams.

use std::fs::File;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{ClusterNode, pod};
use serde_json::{Value, json};
use testkit::images::BUSYBOX;
use tokio::process::{Child, Command};

/// Longer than any command needs on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(180);

/// The streaming protocol of kubectl.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamProtocol {
    /// The default: WebSocket first.
    WebSocket,
    /// SPDY only, like old clients.
    Spdy,
}

pub(crate) fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "image": BUSYBOX, "command": ["/bin/sh", "-c", script]})
}

/// A pod with a waiting shell.
pub(crate) async fn start_waiting(node: &ClusterNode, name: &str) -> Result<()> {
    node.apply(&pod(name, [sh("main", "trap 'exit 0' TERM; while true; do sleep 1; done")])).await?;
    node.wait_running(name).await.map(drop)
}

/// kubectl in the scenario's namespace.
pub(crate) fn kubectl(node: &ClusterNode, protocol: StreamProtocol, arguments: &[&str]) -> Command {
    let mut command = Command::from(node.plane.kubectl_command());
    command.arg("--namespace").arg(&node.namespace).args(arguments);
    if matches!(protocol, StreamProtocol::Spdy) {
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false");
    }
    command.kill_on_drop(true);
    command
}

/// The result of a completed command.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Printed {
    /// The output of a command; fails unless it succeeded.
    pub(crate) fn success(self) -> Result<String> {
        ensure!(self.status.success(), "{self:?}");
        Ok(self.stdout)
    }
}

/// Runs kubectl with text on standard input.
pub(crate) async fn run(
    node: &ClusterNode,
    protocol: StreamProtocol,
    arguments: &[&str],
    input: &str,
) -> Result<Printed> {
    let mut command = kubectl(node, protocol, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("start kubectl")?;
    let mut pipe = child.stdin.take().context("its input")?;
    let work = async {
        // It may exit before it has read everything.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut pipe, input.as_bytes()).await;
        drop(pipe);
        child.wait_with_output().await
    };
    let output =
        tokio::time::timeout(TIMEOUT, work).await.with_context(|| format!("{arguments:?} hangs"))??;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Printed { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) })
}

/// Runs kubectl with standard input and output connected to files.
pub(crate) async fn pump(
    node: &ClusterNode,
    protocol: StreamProtocol,
    arguments: &[&str],
    from: &Path,
    to: &Path,
) -> Result<()> {
    let mut command = kubectl(node, protocol, arguments);
    command.stdin(File::open(from)?).stdout(File::create(to)?).stderr(Stdio::inherit());
    let mut child = command.spawn().context("start kubectl")?;
    let status = tokio::time::timeout(TIMEOUT, child.wait()).await.context("the copy hangs")??;
    ensure!(status.success(), "{arguments:?}: {status}");
    Ok(())
}

/// Starts kubectl in the background with its output piped; killed on drop.
pub(crate) fn start(node: &ClusterNode, protocol: StreamProtocol, arguments: &[&str]) -> Result<Child> {
    let mut command = kubectl(node, protocol, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.spawn().context("start kubectl")
}

/// Writes data that does not compress or repeat.
pub(crate) fn random_file(path: &Path, bytes: u64) -> Result<()> {
    let mut source = std::io::Read::take(File::open("/dev/urandom")?, bytes);
    std::io::copy(&mut source, &mut File::create(path)?)?;
    Ok(())
}

/// Fails unless both files are equal.
pub(crate) fn same(one: &Path, other: &Path) -> Result<()> {
    let status = std::process::Command::new("cmp").arg(one).arg(other).status().context("start cmp")?;
    ensure!(status.success(), "{} and {} differ", one.display(), other.display());
    Ok(())
}
