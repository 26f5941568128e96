//! Programs that run in a machine's namespaces.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::Machine;
use crate::control_plane::program;
use crate::instance::Instance;

/// Longer than any command takes; kubeadm and kubectl have their own, shorter timeouts.
const TIMEOUT: Duration = Duration::from_secs(1800);
const ADMIN_KUBECONFIG: &str = "/etc/kubernetes/admin.conf";

/// The machine's own programs first, then the built tools, then the system's.
pub(super) fn search_path(instance: &Instance) -> OsString {
    let tools = program::built("containerd");
    let tools = tools.parent().unwrap_or(Path::new("/"));
    format!("{}:{}:/usr/sbin:/usr/bin:/sbin:/bin", instance.path("bin").display(), tools.display()).into()
}

impl Machine {
    /// Runs a program in the machine and returns its standard output.
    pub async fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        self.run_with_input(program, arguments, "").await
    }

    /// Runs kubectl with the administrator's credentials that `kubeadm init` wrote on this machine.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with_input(arguments, "").await
    }

    /// `kubectl get ... -o json`.
    pub async fn get(&self, arguments: &[&str]) -> Result<Value> {
        let text =
            self.kubectl(&[&["get", "-o", "json", "--request-timeout=120s"], arguments].concat()).await?;
        serde_json::from_str(&text).with_context(|| format!("read the output of kubectl get {arguments:?}"))
    }

    /// `kubectl apply` of one object or a list.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl_with_input(&["apply", "-f", "-"], &object.to_string()).await.map(drop)
    }

    async fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let access = ["--kubeconfig", ADMIN_KUBECONFIG, "--cache-dir", "/run/kubectl"];
        self.run_with_input("kubectl", &[&access, arguments].concat(), input).await
    }

    async fn run_with_input(&self, program: &str, arguments: &[&str], input: &str) -> Result<String> {
        let mut child = Command::new("nsenter")
            .args(["--target", &self.namespaces.init.to_string()])
            .args(["--mount", "--net", "--uts", "--ipc", "--pid", "--wd=/", "--"])
            .arg(program)
            .args(arguments)
            .env("PATH", search_path(&self.instance))
            .env("HOME", self.instance.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start nsenter")?;
        let mut pipe = child.stdin.take().context("the command's input")?;
        let work = async {
            // The program may exit before it has read everything; its output gives the reason.
            let _ = pipe.write_all(input.as_bytes()).await;
            drop(pipe);
            child.wait_with_output().await
        };
        let command = format!("{program} {} on {}", arguments.join(" "), self.name());
        let output = tokio::time::timeout(TIMEOUT, work).await;
        let output = output.with_context(|| format!("{command}: timed out after {TIMEOUT:?}"))?;
        let output = output.with_context(|| format!("wait for {command}"))?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("{command}: {stdout}{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(stdout)
    }
}
