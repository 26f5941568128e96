//! An agent under test: podward or the upstream kubelet, started in the same way with the same folders.
//!
//! [`AgentProcess`] owns the node's configuration and one process at a time. [`AgentProcess::become_kind`] changes the
//! program that runs on the node, so a test can hand a running node from one agent to the other.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use rustix::process::Signal;

use crate::containerd::{Running, tail};
use crate::instance::{Instance, kill};
use crate::poll::eventually;
use crate::{http, images, process};

mod config;

pub(crate) use config::make_cgroup_root;
pub use config::{AgentOptions, Ports};

/// Name of the node in every scenario without a cluster.
pub const NODE: &str = "node-a";

/// The folder of device plugins of every agent.
const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    Podward,
    Upstream,
}

impl Agent {
    /// As in `PODWARD_AGENTS` and in test names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Podward => "podward",
            Self::Upstream => "upstream",
        }
    }

    /// Whether `PODWARD_AGENTS` (default: both) selects this agent.
    pub fn selected(self) -> bool {
        let selection = std::env::var("PODWARD_AGENTS").unwrap_or_else(|_| "podward,upstream".to_owned());
        let names: Vec<&str> = selection.split(',').map(str::trim).collect();
        let known = [Self::Podward, Self::Upstream].map(Self::name);
        // A typing error must not make every scenario pass without running.
        assert!(
            names.iter().all(|name| known.contains(name)),
            "PODWARD_AGENTS={selection}: name {known:?}, or leave it unset"
        );
        names.contains(&self.name())
    }

    /// The program's path. The error for a missing program names the command that builds it.
    pub fn program(self) -> Result<PathBuf> {
        let (variable, candidates, hint) = match self {
            Self::Podward => {
                let target = images::workspace().join("target");
                let built = ["release/podward", "debug/podward"].map(|name| target.join(name));
                ("PODWARD_BIN", built.to_vec(), "cargo build -p podward")
            }
            Self::Upstream => {
                let home = std::env::var_os("HOME").map_or("/root".into(), PathBuf::from);
                ("PODWARD_KUBELET", vec![home.join(".cache/podward/bin/kubelet")], "tools/setup.sh")
            }
        };
        if let Some(path) = std::env::var_os(variable) {
            return Ok(path.into());
        }
        let written = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let newest = candidates.iter().filter(|path| path.exists()).max_by_key(|path| written(path));
        newest
            .cloned()
            .with_context(|| format!("{} is not built: run {hint}, or set {variable}", self.name()))
    }
}

/// The node's agent: its files, ports and, while started, its process.
#[derive(Debug)]
pub struct AgentProcess {
    kind: Agent,
    folder: PathBuf,
    ports: Ports,
    verbosity: u8,
    arguments: Vec<String>,
    programs: Vec<PathBuf>,
    node: String,
    device_plugins: Option<PathBuf>,
    child: Option<Running>,
}

impl AgentProcess {
    /// Writes the configuration for an agent on `instance`; starts nothing.
    pub fn prepare(kind: Agent, instance: &Instance, options: &AgentOptions) -> Result<Self> {
        let ports = config::write(instance, options)?;
        let folder = instance.folder().to_path_buf();
        let AgentOptions { verbosity, mut arguments, programs, node, device_plugins, .. } = options.clone();
        arguments.extend(options.runtime.agent_arguments(instance));
        let child = None;
        Ok(Self { kind, folder, ports, verbosity, arguments, programs, node, device_plugins, child })
    }

    /// Starts the process and returns at once.
    pub fn start(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "the agent is already running");
        let program = self.kind.program()?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .context("open the agent's log")?;
        let mut command = self.command(&program)?;
        if self.kind == Agent::Podward {
            command.arg("agent");
        }
        let child = command
            .arg(format!("--config={}", self.path("kubelet.json").display()))
            .arg(format!("--root-dir={}", self.root().display()))
            .arg(format!("--cert-dir={}", self.path("pki").display()))
            .arg(format!("--hostname-override={}", self.node))
            .arg(format!("--v={}", self.verbosity))
            .args(&self.arguments)
            .env("PATH", self.search_path()?)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share the agent's log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        self.child = Some(Running(child));
        Ok(())
    }

    /// The program, in its own mount namespace if another folder stands for that of device plugins. The process keeps its ID.
    fn command(&self, program: &Path) -> Result<Command> {
        let Some(folder) = &self.device_plugins else { return Ok(Command::new(program)) };
        for needed in [folder.as_path(), Path::new(DEVICE_PLUGINS)] {
            fs::create_dir_all(needed).with_context(|| format!("create {}", needed.display()))?;
        }
        let mut command = Command::new("unshare");
        let script = format!("mount --bind \"$0\" {DEVICE_PLUGINS} && exec \"$@\"");
        command.args(["--mount", "--propagation", "slave", "sh", "-c", &script]).arg(folder).arg(program);
        Ok(command)
    }

    fn search_path(&self) -> Result<OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = self.programs.iter().cloned().chain(std::env::split_paths(&path));
        std::env::join_paths(folders).context("a folder of programs has a colon in its name")
    }

    /// Waits until `/healthz` succeeds and pods can be listed.
    pub async fn wait_ready(&mut self) -> Result<Duration> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited()? {
                bail!("{} ended with {status}; its log ends with\n{}", self.kind.name(), self.log_tail(25));
            }
            let healthy =
                http::get(self.ports.healthz, "/healthz").await.is_ok_and(|answer| answer.status == 200);
            if healthy && self.pods().await.is_ok() {
                return Ok(start.elapsed());
            }
            ensure!(start.elapsed() < Duration::from_secs(120), "agent not ready\n{}", self.log_tail(25));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends SIGKILL and waits for the process to exit.
    pub fn kill9(&mut self) -> Result<()> {
        let mut running = self.child.take().context("the agent is not running")?;
        kill(running.0.id(), Signal::KILL)?;
        running.0.wait().context("wait for the agent")?;
        Ok(())
    }

    /// Sends SIGTERM and waits for the process to exit.
    pub async fn term(&mut self) -> Result<ExitStatus> {
        let pid = self.pid().context("the agent is not running")?;
        kill(pid, Signal::TERM)?;
        self.wait().await
    }

    /// Waits for the process to exit.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let child = &mut self.child;
        let waited = Instant::now();
        loop {
            let running = child.as_mut().context("the agent is not running")?;
            if let Some(status) = running.0.try_wait().context("wait for the agent")? {
                *child = None;
                return Ok(status);
            }
            ensure!(waited.elapsed() < Duration::from_secs(90), "the agent does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Selects the program for the next start; keeps folders and configuration.
    pub fn become_kind(&mut self, kind: Agent) -> Result<()> {
        ensure!(self.child.is_none(), "stop the agent first");
        self.kind = kind;
        Ok(())
    }

    pub fn kind(&self) -> Agent {
        self.kind
    }

    /// All pods as the read-only port shows them.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let answer = http::get(self.ports.read_only, "/pods").await?;
        ensure!(answer.status == 200, "/pods responds with {}", answer.status);
        let list: List<Pod> = serde_json::from_slice(&answer.body).context("parse /pods")?;
        Ok(list.items)
    }

    /// Text of a page of the read-only port.
    pub async fn page(&self, path: &str) -> Result<String> {
        let answer = http::get(self.ports.read_only, path).await?;
        ensure!(answer.status == 200, "{path} answers {}", answer.status);
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    pub async fn wait_log(&self, text: &str, limit: Duration) -> Result<()> {
        let path = self.log_path();
        eventually(&format!("log line with {text:?}"), limit, async || {
            let log = fs::read(&path).context("read the agent's log")?;
            ensure!(String::from_utf8_lossy(&log).contains(text), "no such line");
            Ok(())
        })
        .await
    }

    /// Process ID, `None` unless it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(|running| running.0.id())
    }

    /// Resident memory of the process in KiB.
    pub fn resident_kib(&self) -> Result<u64> {
        self.pid().and_then(process::resident_kib).context("the agent is not running")
    }

    /// Processor time of the process so far.
    pub fn cpu_time(&self) -> Result<Duration> {
        self.pid().and_then(process::cpu_time).context("the agent is not running")
    }

    pub fn manifests(&self) -> PathBuf {
        self.path("manifests")
    }

    /// `--config`.
    pub fn config_file(&self) -> PathBuf {
        self.path("kubelet.json")
    }

    /// `--root-dir`.
    pub fn root(&self) -> PathBuf {
        self.path("kubelet")
    }

    /// `podLogsDir`.
    pub fn pod_logs(&self) -> PathBuf {
        self.path("logs")
    }

    pub fn ports(&self) -> Ports {
        self.ports
    }

    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log_path(), lines)
    }

    fn exited(&mut self) -> Result<Option<ExitStatus>> {
        let running = self.child.as_mut().context("the agent is not running")?;
        running.0.try_wait().context("check the agent process")
    }

    fn log_path(&self) -> PathBuf {
        self.path("agent.log")
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.folder).join(name)
    }
}
