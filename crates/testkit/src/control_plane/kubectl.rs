//! The real kubectl, run as the administrator.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::{ControlPlane, program};

const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than any command of a scenario; `kubectl wait` has its own timeout.
const TIMEOUT: Duration = Duration::from_secs(150);

impl ControlPlane {
    /// Runs kubectl as the administrator and returns its standard output.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with_input(arguments, "").await
    }

    /// Like [`Self::kubectl`], with text on standard input (`-f -`).
    pub async fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut child = Command::from(self.kubectl_command())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start kubectl")?;
        let mut pipe = child.stdin.take().context("kubectl's input")?;
        let work = async {
            // kubectl may exit before it has read everything; its output gives the reason.
            let _ = pipe.write_all(input.as_bytes()).await;
            drop(pipe);
            child.wait_with_output().await
        };
        let output = tokio::time::timeout(TIMEOUT, work).await;
        let output = output.with_context(|| format!("kubectl {arguments:?}: timed out after {TIMEOUT:?}"))?;
        let output = output.context("wait for kubectl")?;
        if !output.status.success() {
            bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The prepared command, for code that cannot await.
    pub fn kubectl_command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(program::path("kubectl"));
        command
            .arg(format!("--kubeconfig={}", self.admin_kubeconfig().display()))
            .arg(format!("--cache-dir={}", self.folder().join("kubectl").display()));
        command
    }

    /// `kubectl apply` of one object or a list.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl_with_input(&["apply", "-f", "-"], &object.to_string()).await.map(drop)
    }

    /// `kubectl get ... -o json`.
    pub async fn get(&self, arguments: &[&str]) -> Result<Value> {
        let all = [&["get", "-o", "json"], arguments].concat();
        let text = self.kubectl(&all).await?;
        serde_json::from_str(&text).with_context(|| format!("read the output of kubectl {all:?}"))
    }

    pub(super) async fn wait_api_server(&self) -> Result<()> {
        self.wait_for("kube-apiserver", &["get", "--raw", "/readyz"]).await
    }

    /// The default service account is one of the first objects that the controllers create.
    pub(super) async fn wait_controllers(&self) -> Result<()> {
        let made = ["get", "serviceaccount/default", "configmap/kube-root-ca.crt"];
        self.wait_for("kube-controller-manager", &made).await
    }

    /// Retries until kubectl succeeds; fails at once if a component has exited.
    async fn wait_for(&self, component: &str, question: &[&str]) -> Result<()> {
        let start = Instant::now();
        loop {
            let answer = self.kubectl(question).await;
            let Err(error) = answer else { return Ok(()) };
            let ended = self.components().check().err();
            if ended.is_some() || start.elapsed() > READY_TIMEOUT {
                let log = self.log_tail(component, 12);
                let error = ended.unwrap_or(error);
                return Err(error.context(format!("{component} is not ready; its log ends with\n{log}")));
            }
            // Each attempt is a new process, and the starting component needs the CPU.
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }
}
