//! A node of a real cluster under test: containerd and one agent that joins the control plane of the test process.
//!
//! Each has its own node name and namespace; both are deleted with it. At most one exists at a time, so every scheduled
//! pod is assigned to it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::agent_process::{Agent, AgentOptions, AgentProcess};
use testkit::containerd::Containerd;
use testkit::control_plane::{AuditedRequest, ControlPlane, FaultProxy};
use testkit::cri_view::{ContainerView, CriView};

use crate::status::{PodView, view};

mod privileges;
mod quiet;

pub use quiet::Quiet;

/// Long enough for a loaded machine; a scenario that exceeds it is broken.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Interval of requests to the API server, each of which starts a process.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How the agent obtains its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// A kubeconfig with a long-lived certificate.
    WithCertificate,
    WithToken,
    /// A kubeconfig that points to a proxy which injects faults.
    ThroughFaultProxy,
}

/// A node of the shared control plane. Dropping it prints the end of the agent's log.
#[derive(Debug)]
pub struct ClusterNode {
    /// First field, so that the agent is stopped first.
    pub agent: AgentProcess,
    pub containerd: Containerd,
    pub plane: &'static ControlPlane,
    pub name: String,
    /// Namespace of the scenario's objects.
    pub namespace: String,
    proxy: Option<FaultProxy>,
}

impl ClusterNode {
    /// Starts containerd and the agent and waits until the node accepts pods.
    pub async fn start(agent: Agent) -> Result<Self> {
        Self::start_with(agent, Joining::WithCertificate, &AgentOptions::default()).await
    }

    /// Like [`Self::start`], with changed options.
    pub async fn start_with(agent: Agent, joining: Joining, options: &AgentOptions) -> Result<Self> {
        let mut node = Self::prepare(agent, joining, options).await?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        node.wait_schedulable().await?;
        Ok(node)
    }

    /// Starts containerd, creates the namespace and configures the agent, but does not start it.
    pub async fn prepare(agent: Agent, joining: Joining, options: &AgentOptions) -> Result<Self> {
        let containerd = Containerd::start().await?;
        Self::prepare_on(containerd, agent, joining, options).await
    }

    /// Like [`Self::start_with`], on containerd 2.x, which injects CDI devices.
    pub async fn start_on_containerd_2(agent: Agent, options: &AgentOptions) -> Result<Self> {
        let home = std::env::var_os("HOME").map_or("/root".into(), PathBuf::from);
        let binary = std::env::var_os("PODWARD_CONTAINERD_2").map(PathBuf::from);
        let binary = binary.unwrap_or_else(|| home.join(".cache/podward/bin/containerd"));
        let containerd = Containerd::start_binary(&binary).await?;
        let mut node = Self::prepare_on(containerd, agent, Joining::WithCertificate, options).await?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        node.wait_schedulable().await?;
        Ok(node)
    }

    async fn prepare_on(
        containerd: Containerd,
        agent: Agent,
        joining: Joining,
        options: &AgentOptions,
    ) -> Result<Self> {
        agent.program()?;
        let plane = ControlPlane::shared().await?;
        plane.ensure_api_server().await?;
        // Pods would be scheduled to a node that a scenario left behind during an API server outage.
        plane.kubectl(&["delete", "nodes", "--all", "--wait=false"]).await?;
        let id = containerd.instance().id().to_lowercase();
        let (name, namespace) = (format!("node-{id}"), format!("ns-{id}"));
        let mut options = options.clone();
        options.node.clone_from(&name);
        if let Some(overlay) = options.overlay.as_object_mut() {
            overlay.entry("registerNode").or_insert(json!(true));
            // The API server connects to the node's address.
            overlay.entry("address").or_insert(json!("0.0.0.0"));
        }
        let mut proxy = None;
        let kubeconfig = match joining {
            Joining::ThroughFaultProxy => proxy.insert(plane.fault_proxy(&name).await?).kubeconfig(),
            Joining::WithCertificate => plane.node_kubeconfig(&name)?,
            Joining::WithToken => {
                options
                    .arguments
                    .push(format!("--bootstrap-kubeconfig={}", plane.bootstrap_kubeconfig()?.display()));
                containerd.instance().path("joined.kubeconfig")
            }
        };
        options.arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        let agent = AgentProcess::prepare(agent, containerd.instance(), &options)?;
        let node = Self { agent, containerd, plane, name, namespace, proxy };
        node.make_namespace().await?;
        Ok(node)
    }

    /// The fault proxy of the agent's connection.
    ///
    /// # Errors
    /// When the node did not join that way.
    pub fn proxy(&self) -> Result<&FaultProxy> {
        self.proxy.as_ref().context("the node has no fault proxy")
    }

    /// Runs kubectl in the scenario's namespace.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.plane.kubectl(&[&["--namespace", self.namespace.as_str()], arguments].concat()).await
    }

    /// Runs kubectl with text on standard input in the scenario's namespace.
    pub async fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let all = [&["--namespace", self.namespace.as_str()], arguments].concat();
        self.plane.kubectl_with_input(&all, input).await
    }

    /// `kubectl apply` in the scenario's namespace.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl_with_input(&["apply", "-f", "-"], &object.to_string()).await.map(drop)
    }

    /// `kubectl get -o json` in the scenario's namespace.
    pub async fn get(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get", "-o", "json"], arguments].concat()).await?;
        serde_json::from_str(&text).context("read the output of kubectl")
    }

    pub async fn node(&self) -> Result<Value> {
        self.get(&["node", &self.name]).await
    }

    /// A pod as stored by the API server.
    pub async fn pod(&self, name: &str) -> Result<PodView> {
        let pod = self.get(&["pod", name]).await?;
        Ok(view(&serde_json::from_value(pod).context("read a pod")?))
    }

    /// All pods of the namespace that match the label selector and are not being deleted.
    pub async fn pods(&self, selector: &str) -> Result<Vec<PodView>> {
        let list = self.get(&["pods", "--selector", selector]).await?;
        let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        let live = items.into_iter().filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none());
        live.map(|pod| Ok(view(&serde_json::from_value(pod).context("read a pod")?))).collect()
    }

    /// Waits until the pod's API object satisfies `condition`.
    pub async fn wait_pod(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&PodView) -> bool,
    ) -> Result<PodView> {
        self.wait(&format!("pod {name} {what}"), async || {
            let pod = self.pod(name).await?;
            ensure!(condition(&pod), "{pod:?}");
            Ok(pod)
        })
        .await
    }

    pub async fn wait_running(&self, name: &str) -> Result<PodView> {
        self.wait_pod(name, "runs", PodView::all_running).await
    }

    pub async fn wait_field(&self, object: &[&str], pointer: &str, value: &Value) -> Result<Value> {
        self.wait(&format!("{object:?} has {pointer} = {value}"), async || {
            let object = self.get(object).await?;
            let found = object.pointer(pointer).unwrap_or(&Value::Null);
            ensure!(found == value, "it is {found} in {}", object.get("status").unwrap_or(&Value::Null));
            Ok(object)
        })
        .await
    }

    pub async fn wait_absent(&self, object: &[&str]) -> Result<()> {
        self.wait(&format!("{object:?} is gone"), async || {
            let found =
                self.kubectl(&[&["get", "--ignore-not-found", "-o", "name"], object].concat()).await?;
            ensure!(found.trim().is_empty(), "{found}");
            Ok(())
        })
        .await
    }

    /// Retries until `question` succeeds; not too often, because it queries the API server.
    pub async fn wait<T>(&self, what: &str, question: impl AsyncFn() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            match question().await {
                Ok(answer) => return Ok(answer),
                Err(error) if start.elapsed() > TIMEOUT => {
                    return Err(error.context(format!("{what}: not within {TIMEOUT:?}")));
                }
                Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    pub fn cri(&self) -> CriView {
        self.containerd.cri()
    }

    /// Running containers of a pod, according to the runtime.
    pub async fn running(&self, pod: &str) -> Result<Vec<ContainerView>> {
        let containers = self.cri().containers_of(pod).await?;
        Ok(containers.into_iter().filter(ContainerView::running).collect())
    }

    /// Current log of a container.
    pub async fn log(&self, pod: &str, container: &str) -> Result<String> {
        let all = self.cri().containers_of(pod).await?;
        let last = all.iter().rev().find(|view| view.name == container);
        let path = &last.with_context(|| format!("no container {container} of {pod}"))?.log_path;
        let text = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
        Ok(text
            .lines()
            .map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned() + "\n")
            .collect())
    }

    pub fn volume(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        self.agent.root().join(format!("pods/{uid}/volumes/kubernetes.io~{plugin}/{name}"))
    }

    /// Kills the agent with SIGKILL, starts it again and waits until it is ready.
    pub async fn restart_agent(&mut self) -> Result<()> {
        self.agent.kill9()?;
        self.agent.start()?;
        self.agent.wait_ready().await.map(drop)
    }

    /// The agent's requests to the API server as this node.
    pub fn requests(&self) -> Result<Vec<AuditedRequest>> {
        self.plane.requests_of_node(&self.name)
    }

    /// Accepted pod status writes in the scenario's namespace.
    pub fn status_writes(&self) -> Result<Vec<AuditedRequest>> {
        let mut requests = self.requests()?;
        requests.retain(|request| {
            let write = request.verb == "patch" || request.verb == "update";
            let status = request.resource == "pods" && request.subresource == "status";
            write && status && request.code == 200 && request.namespace == self.namespace
        });
        Ok(requests)
    }

    /// Final check of every scenario: the agent requested nothing that a node may not read, and its log can be read line by
    /// line.
    pub fn end(self) -> Result<()> {
        let log = self.agent.log_tail(usize::MAX);
        // Events begin with their time, also if they contain output of containers or responses of the API server. After a
        // switch between the agents, the log has lines of upstream as well.
        let only_podward = self.agent.kind() == Agent::Podward && !log.lines().any(is_of_upstream);
        if only_podward && let Some(line) = log.lines().find(|line| !line.starts_with("20")) {
            bail!("a log event has several lines, one of them is {line:?}");
        }
        let all = self.requests()?;
        let forbidden = privileges::forbidden(&all, &self.plane.api_server_starts());
        // The upstream kubelet requests everything that its informers need, whether or not it may.
        if self.agent.kind() == Agent::Podward
            && let Some(first) = forbidden.first()
        {
            bail!("{} forbidden requests, the first: {first:?}", forbidden.len());
        }
        Ok(())
    }

    pub async fn wait_schedulable(&self) -> Result<()> {
        self.wait("the node accepts pods", async || {
            let node = self.node().await?;
            ensure!(condition(&node, "Ready") == "True", "not ready: {}", node["status"]["conditions"]);
            ensure!(node.pointer("/spec/taints").is_none(), "tainted: {}", node["spec"]["taints"]);
            Ok(())
        })
        .await
    }

    async fn make_namespace(&self) -> Result<()> {
        self.plane.kubectl(&["create", "namespace", &self.namespace]).await?;
        self.wait("the namespace is ready", async || {
            self.kubectl(&["get", "serviceaccount/default", "configmap/kube-root-ca.crt"]).await.map(drop)
        })
        .await
    }
}

impl Drop for ClusterNode {
    fn drop(&mut self) {
        println!("--- log of {} ends with\n{}", self.agent.kind().name(), self.agent.log_tail(60));
        println!("--- what others did to pods in {}", self.namespace);
        let own = format!("system:node:{}", self.name);
        let writes = self.plane.writes_in(&self.namespace).unwrap_or_default();
        let foreign = writes.iter().filter(|write| write.resource == "pods" && write.user != own);
        for write in foreign.rev().take(30) {
            let AuditedRequest { received, user, verb, uri, code, body, .. } = write;
            println!("{received} {user} {verb} {uri} {code} {}", body["target"]);
        }
        for object in [["node", self.name.as_str()], ["namespace", self.namespace.as_str()]] {
            let mut command = self.plane.kubectl_command();
            command
                .args(["delete", "--ignore-not-found", "--wait=false", "--request-timeout=10s"])
                .args(object);
            let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

/// Whether a line begins like upstream's, with severity, month and day: `I1231 `.
fn is_of_upstream(line: &str) -> bool {
    let head = line.as_bytes().first_chunk::<6>();
    head.is_some_and(|[severity, date @ .., space]| {
        b"IWEF".contains(severity) && date.iter().all(u8::is_ascii_digit) && *space == b' '
    })
}

/// The status of a condition; empty if there is none.
pub fn condition(object: &Value, kind: &str) -> String {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
}
