//! A node under test: a container runtime and one agent, in one temporary folder.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use testkit::agent_process::{Agent, AgentOptions, AgentProcess, NODE};
use testkit::containerd::Containerd;
use testkit::cri_view::{ContainerView, CriView};
use testkit::node_runtime::{NodeRuntime, RuntimeKind};
use testkit::poll::eventually;

use crate::status::{PodView, view};

/// Long enough for a loaded machine; a scenario that exceeds it is broken.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A runtime with an agent on it. Dropping it prints the end of the agent's log, which the test
/// harness shows for failed tests only.
#[derive(Debug)]
pub struct Node {
    /// First field, so that the agent is stopped first.
    pub agent: AgentProcess,
    pub runtime: NodeRuntime,
    /// Whether to print the end of the agent's log on drop.
    pub print_log_on_drop: bool,
}

impl Node {
    /// Starts the runtime that `PODWARD_RUNTIME` selects and the agent, and waits until both are ready.
    pub async fn start(agent: Agent) -> Result<Self> {
        Self::start_with(agent, &AgentOptions::default()).await
    }

    /// Like [`Self::start`], with changed agent options.
    pub async fn start_with(agent: Agent, options: &AgentOptions) -> Result<Self> {
        let mut node = Self::prepare(agent, options).await?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        Ok(node)
    }

    /// Starts the agent on containerd 2.x, which has events, image volumes and runtime handler features. Podward's own
    /// runtime has them, too.
    pub async fn start_on_containerd_2(agent: Agent) -> Result<Self> {
        if RuntimeKind::selected() != RuntimeKind::Containerd {
            return Self::start(agent).await;
        }
        let home = std::env::var_os("HOME").map_or("/root".into(), PathBuf::from);
        let binary = std::env::var_os("PODWARD_CONTAINERD_2").map(PathBuf::from);
        let binary = binary.unwrap_or_else(|| home.join(".cache/podward/bin/containerd"));
        let runtime = NodeRuntime::Containerd(Containerd::start_binary(&binary).await?);
        let mut node = Self::on(runtime, agent, &AgentOptions::default())?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        Ok(node)
    }

    /// Starts the runtime that `PODWARD_RUNTIME` selects and configures the agent, but does not start it.
    pub async fn prepare(agent: Agent, options: &AgentOptions) -> Result<Self> {
        Self::prepare_with(RuntimeKind::selected(), agent, options).await
    }

    /// Like [`Self::prepare`], on this runtime.
    pub async fn prepare_with(runtime: RuntimeKind, agent: Agent, options: &AgentOptions) -> Result<Self> {
        agent.program()?;
        Self::on(NodeRuntime::start(runtime).await?, agent, options)
    }

    /// Configures an agent on a runtime.
    pub fn on(runtime: NodeRuntime, agent: Agent, options: &AgentOptions) -> Result<Self> {
        let agent = prepare_agent(&runtime, agent, options)?;
        Ok(Self { agent, runtime, print_log_on_drop: true })
    }

    /// Replaces the configuration of an agent that is not started yet.
    pub fn configure(&mut self, agent: Agent, options: &AgentOptions) -> Result<()> {
        self.agent = prepare_agent(&self.runtime, agent, options)?;
        Ok(())
    }

    /// Writes a manifest atomically: a dot-file first, then a rename.
    pub fn write(&self, file: &str, manifest: &Value) -> Result<()> {
        self.write_text(file, &serde_json::to_string_pretty(manifest)?)
    }

    pub fn write_text(&self, file: &str, text: &str) -> Result<()> {
        let hidden = self.manifest(&format!(".{file}.new"));
        fs::write(&hidden, text).with_context(|| format!("write {}", hidden.display()))?;
        fs::rename(&hidden, self.manifest(file)).with_context(|| format!("rename to {file}"))
    }

    pub fn remove(&self, file: &str) -> Result<()> {
        fs::remove_file(self.manifest(file)).with_context(|| format!("remove {file}"))
    }

    pub fn manifest(&self, file: &str) -> PathBuf {
        self.agent.manifests().join(file)
    }

    pub fn cri(&self) -> CriView {
        self.runtime.cri()
    }

    /// The pod of a manifest by the manifest's name.
    pub async fn pod(&self, name: &str) -> Result<PodView> {
        Ok(view(&self.api_pod(name).await?))
    }

    /// Like [`Self::pod`], as a complete object.
    pub async fn api_pod(&self, name: &str) -> Result<Pod> {
        let full = full_name(name);
        let mut pods = self.agent.pods().await?;
        pods.retain(|pod| pod.metadata.name.as_deref() == Some(full.as_str()));
        ensure!(pods.len() <= 1, "{} pods are called {full}", pods.len());
        pods.pop().with_context(|| format!("pod {full} is not known"))
    }

    pub async fn wait_pod(
        &self,
        name: &str,
        what: &str,
        mut condition: impl FnMut(&PodView) -> bool,
    ) -> Result<PodView> {
        let what = format!("pod {name} {what}");
        let condition = &mut condition;
        let start = std::time::Instant::now();
        loop {
            let pod = self.pod(name).await;
            match pod {
                Ok(pod) if condition(&pod) => return Ok(pod),
                other if start.elapsed() > TIMEOUT => {
                    anyhow::bail!("{what}: not within {TIMEOUT:?}; last seen: {other:?}");
                }
                _ => tokio::time::sleep(Duration::from_millis(25)).await,
            }
        }
    }

    pub async fn wait_running(&self, name: &str) -> Result<PodView> {
        self.wait_pod(name, "runs", PodView::all_running).await
    }

    /// Waits until agent and runtime have removed the pod.
    pub async fn wait_gone(&self, name: &str) -> Result<()> {
        let cri = self.cri();
        let full = full_name(name);
        eventually(&format!("pod {name} gone"), TIMEOUT, async || {
            ensure!(self.pod(name).await.is_err(), "still listed");
            let running = cri.containers_of(&full).await?.into_iter().filter(ContainerView::running).count();
            ensure!(running == 0, "{running} containers still run");
            let sandboxes = cri.sandboxes_of(&full).await?;
            ensure!(sandboxes.iter().all(|sandbox| !sandbox.ready), "sandbox still ready");
            Ok(())
        })
        .await
    }

    /// Running containers of the pod, according to the runtime.
    pub async fn running(&self, name: &str) -> Result<Vec<ContainerView>> {
        let containers = self.cri().containers_of(&full_name(name)).await?;
        Ok(containers.into_iter().filter(ContainerView::running).collect())
    }

    pub async fn only_running(&self, name: &str) -> Result<ContainerView> {
        let mut running = self.running(name).await?;
        ensure!(running.len() == 1, "{} containers of {name} run, not 1", running.len());
        running.pop().context("one container")
    }

    /// Log of a container without the log format. A container that has just started may not have written everything:
    /// waits until the log is stable, or a few seconds.
    pub async fn log(&self, name: &str, container: &str) -> Result<String> {
        const QUIET: Duration = Duration::from_millis(400);
        const LONGEST: Duration = Duration::from_secs(15);
        let start = std::time::Instant::now();
        let mut before = self.log_now(name, container).await?;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = self.log_now(name, container).await?;
            if (now == before && !now.is_empty()) || start.elapsed() > LONGEST {
                return Ok(now);
            }
            before = now;
        }
    }

    async fn log_now(&self, name: &str, container: &str) -> Result<String> {
        let all = self.cri().containers_of(&full_name(name)).await?;
        let last = all.iter().rev().find(|view| view.name == container);
        let path = &last.with_context(|| format!("no container {container} of {name}"))?.log_path;
        let text = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
        Ok(text
            .lines()
            .map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned() + "\n")
            .collect())
    }

    /// Kills the agent with SIGKILL, starts it again and waits until it is ready.
    pub async fn restart_agent(&mut self) -> Result<()> {
        self.agent.kill9()?;
        self.agent.start()?;
        self.agent.wait_ready().await?;
        Ok(())
    }
}

fn prepare_agent(runtime: &NodeRuntime, agent: Agent, options: &AgentOptions) -> Result<AgentProcess> {
    let options = AgentOptions { runtime: runtime.kind(), ..options.clone() };
    AgentProcess::prepare(agent, runtime.instance(), &options)
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.print_log_on_drop {
            println!("--- log of {} ends with\n{}", self.agent.kind().name(), self.agent.log_tail(60));
        }
    }
}

pub(crate) fn full_name(name: &str) -> String {
    format!("{name}-{NODE}")
}
