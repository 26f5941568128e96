//! The real kubectl, run as the administrator.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::{ControlPlane, program};

const READY: Duration = Duration::from_secs(60);
/// Longer than any command of a scenario; a `kubectl wait` brings its own limit.
const LIMIT: Duration = Duration::from_secs(150);

impl ControlPlane {
    /// Runs kubectl as the administrator and returns what it prints.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with_input(arguments, "").await
    }

    /// The same with text on its standard input (`-f -`).
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
            // kubectl may end before it has read everything; its answer says why.
            let _ = pipe.write_all(input.as_bytes()).await;
            drop(pipe);
            child.wait_with_output().await
        };
        let output = tokio::time::timeout(LIMIT, work).await;
        let output = output.with_context(|| format!("kubectl {arguments:?}: no end in {LIMIT:?}"))?;
        let output = output.context("wait for kubectl")?;
        if !output.status.success() {
            bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The bare command, for code that cannot wait.
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
        serde_json::from_str(&text).with_context(|| format!("read the answer of kubectl {all:?}"))
    }

    pub(super) async fn wait_api_server(&self) -> Result<()> {
        self.wait_for("kube-apiserver", &["get", "--raw", "/readyz"]).await
    }

    /// The default service account is among the first things that the controllers make.
    pub(super) async fn wait_controllers(&self) -> Result<()> {
        let made = ["get", "serviceaccount/default", "configmap/kube-root-ca.crt"];
        self.wait_for("kube-controller-manager", &made).await
    }

    /// Asks until kubectl succeeds; a component that has ended is told at once.
    async fn wait_for(&self, component: &str, question: &[&str]) -> Result<()> {
        let start = Instant::now();
        loop {
            let answer = self.kubectl(question).await;
            let Err(error) = answer else { return Ok(()) };
            let ended = self.components().check().err();
            if ended.is_some() || start.elapsed() > READY {
                let log = self.log_tail(component, 12);
                let error = ended.unwrap_or(error);
                return Err(error.context(format!("{component} is not ready; its log ends with\n{log}")));
            }
            // Each question is a process of its own, and the component wants the machine now.
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }
}
