//! The state of a CRI runtime as flat values that a test can compare.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cri::v1;
use cri::v1::image_service_client::ImageServiceClient;
use cri::v1::runtime_service_client::RuntimeServiceClient;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

#[derive(Clone, Debug, PartialEq)]
pub struct SandboxView {
    pub id: String,
    pub pod: String,
    pub namespace: String,
    pub uid: String,
    pub attempt: u32,
    pub ready: bool,
    /// In nanoseconds.
    pub created_at: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// A container in any state.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerView {
    pub id: String,
    /// Sandbox ID.
    pub sandbox: String,
    pub pod: String,
    pub uid: String,
    pub name: String,
    pub attempt: u32,
    pub state: v1::ContainerState,
    /// Times in nanoseconds; 0 if not yet.
    pub created_at: i64,
    pub started_at: i64,
    pub finished_at: i64,
    pub exit_code: i32,
    /// Image as the agent requested it.
    pub image: String,
    pub log_path: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Mounts as (container path, host path, read-only).
    pub mounts: Vec<(String, String, bool)>,
}

impl ContainerView {
    pub fn running(&self) -> bool {
        self.state == v1::ContainerState::ContainerRunning
    }
}

/// A connection that reads the runtime's state, and removes containers without the agent's knowledge.
#[derive(Clone, Debug)]
pub struct CriView {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
}

impl CriView {
    /// Connects lazily and reconnects after each loss.
    pub fn connect(socket: &Path) -> Self {
        let socket: PathBuf = socket.to_path_buf();
        let connector = tower::service_fn(move |_: tonic::codegen::http::Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        Self { runtime: RuntimeServiceClient::new(channel.clone()), images: ImageServiceClient::new(channel) }
    }

    /// Fails unless runtime and network are ready.
    pub async fn ready(&self) -> Result<()> {
        let status = self.runtime.clone().status(v1::StatusRequest::default()).await.context("CRI Status")?;
        for condition in status.into_inner().status.unwrap_or_default().conditions {
            let name = &condition.r#type;
            let known = matches!(name.as_str(), "RuntimeReady" | "NetworkReady");
            ensure!(condition.status || !known, "{name} is false: {}", condition.message);
        }
        Ok(())
    }

    pub async fn images(&self) -> Result<Vec<String>> {
        let list =
            self.images.clone().list_images(v1::ListImagesRequest::default()).await.context("ListImages")?;
        Ok(list.into_inner().images.into_iter().flat_map(|image| image.repo_tags).collect())
    }

    /// All sandboxes, oldest first.
    pub async fn sandboxes(&self) -> Result<Vec<SandboxView>> {
        let request = v1::ListPodSandboxRequest::default();
        let list = self.runtime.clone().list_pod_sandbox(request).await.context("ListPodSandbox")?;
        let mut sandboxes: Vec<_> = list.into_inner().items.into_iter().map(sandbox_view).collect();
        sandboxes.sort_by_key(|sandbox| sandbox.created_at);
        Ok(sandboxes)
    }

    /// All containers with their full status, oldest first.
    pub async fn containers(&self) -> Result<Vec<ContainerView>> {
        let mut client = self.runtime.clone();
        let list =
            client.list_containers(v1::ListContainersRequest::default()).await.context("ListContainers")?;
        let mut containers = Vec::new();
        for container in list.into_inner().containers {
            let request = v1::ContainerStatusRequest { container_id: container.id.clone(), verbose: false };
            match client.container_status(request).await {
                Ok(status) => {
                    let status = status.into_inner().status.unwrap_or_default();
                    containers.push(container_view(container.pod_sandbox_id, status));
                }
                // Removed since the list was made.
                Err(status) if status.code() == tonic::Code::NotFound => {}
                Err(status) => return Err(status).context("ContainerStatus"),
            }
        }
        containers.sort_by_key(|container| container.created_at);
        Ok(containers)
    }

    /// Stops and removes every sandbox with its containers.
    pub async fn remove_all(&self) -> Result<()> {
        let mut client = self.runtime.clone();
        for sandbox in self.sandboxes().await? {
            let pod_sandbox_id = sandbox.id;
            let request = v1::StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() };
            client.stop_pod_sandbox(request).await.context("StopPodSandbox")?;
            let request = v1::RemovePodSandboxRequest { pod_sandbox_id };
            client.remove_pod_sandbox(request).await.context("RemovePodSandbox")?;
        }
        Ok(())
    }

    /// Removes an exited container, as a person or another program would.
    pub async fn remove_container(&self, container: &str) -> Result<()> {
        let request = v1::RemoveContainerRequest { container_id: container.to_owned() };
        self.runtime.clone().remove_container(request).await.context("RemoveContainer").map(drop)
    }

    /// Starts a pod with one container without an agent and returns how long the runtime took.
    pub async fn start_pod(&self, name: &str, image: &str, arguments: &[&str]) -> Result<Duration> {
        let mut client = self.runtime.clone();
        let metadata = v1::PodSandboxMetadata {
            name: name.to_owned(),
            uid: name.to_owned(),
            namespace: "default".to_owned(),
            attempt: 0,
        };
        let sandbox = v1::PodSandboxConfig { metadata: Some(metadata), ..Default::default() };
        let container = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: "main".to_owned(), attempt: 0 }),
            image: Some(v1::ImageSpec { image: image.to_owned(), ..Default::default() }),
            args: arguments.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        let start = Instant::now();
        let request = v1::RunPodSandboxRequest { config: Some(sandbox.clone()), ..Default::default() };
        let answer = client.run_pod_sandbox(request).await.context("RunPodSandbox")?;
        let pod_sandbox_id = answer.into_inner().pod_sandbox_id;
        let (config, sandbox_config) = (Some(container), Some(sandbox));
        let request = v1::CreateContainerRequest { pod_sandbox_id, config, sandbox_config };
        let container_id =
            client.create_container(request).await.context("CreateContainer")?.into_inner().container_id;
        client.start_container(v1::StartContainerRequest { container_id }).await.context("StartContainer")?;
        Ok(start.elapsed())
    }

    /// Creates and starts a container in a pod without an agent; returns its id and how long the runtime took.
    pub async fn start_container(
        &self,
        sandbox: &str,
        name: &str,
        arguments: &[&str],
    ) -> Result<(String, Duration)> {
        let mut client = self.runtime.clone();
        let config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            image: Some(v1::ImageSpec { image: crate::images::DEMO.to_owned(), ..Default::default() }),
            args: arguments.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        let metadata = v1::PodSandboxMetadata {
            name: "measured".to_owned(),
            uid: "measured".to_owned(),
            namespace: "default".to_owned(),
            attempt: 0,
        };
        let sandbox_config = v1::PodSandboxConfig { metadata: Some(metadata), ..Default::default() };
        let request = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let start = Instant::now();
        let created = client.create_container(request).await.context("CreateContainer")?;
        let container_id = created.into_inner().container_id;
        let request = v1::StartContainerRequest { container_id: container_id.clone() };
        client.start_container(request).await.context("StartContainer")?;
        Ok((container_id, start.elapsed()))
    }

    /// Runs a command in a container and returns how long it took.
    pub async fn exec(&self, container: &str, command: &[&str]) -> Result<Duration> {
        let request = v1::ExecSyncRequest {
            container_id: container.to_owned(),
            cmd: command.iter().map(ToString::to_string).collect(),
            timeout: 30,
        };
        let start = Instant::now();
        let done = self.runtime.clone().exec_sync(request).await.context("ExecSync")?.into_inner();
        ensure!(done.exit_code == 0, "{command:?} ended with exit code {}", done.exit_code);
        Ok(start.elapsed())
    }

    /// Pulls an image and returns how long it took.
    pub async fn pull(&self, image: &str) -> Result<Duration> {
        let image = v1::ImageSpec { image: image.to_owned(), ..Default::default() };
        let request = v1::PullImageRequest { image: Some(image), ..Default::default() };
        let start = Instant::now();
        self.images.clone().pull_image(request).await.context("PullImage")?;
        Ok(start.elapsed())
    }

    /// Containers of one pod, oldest first.
    pub async fn containers_of(&self, pod: &str) -> Result<Vec<ContainerView>> {
        let all = self.containers().await?;
        Ok(all.into_iter().filter(|container| container.pod == pod).collect())
    }

    /// Sandboxes of one pod, oldest first.
    pub async fn sandboxes_of(&self, pod: &str) -> Result<Vec<SandboxView>> {
        let all = self.sandboxes().await?;
        Ok(all.into_iter().filter(|sandbox| sandbox.pod == pod).collect())
    }

    /// Process ID of a running container, from containerd's verbose status.
    pub async fn pid(&self, container: &str) -> Result<u32> {
        let info = self.container_info(container).await?;
        let pid = info.get("pid").and_then(serde_json::Value::as_u64).context("pid in the verbose status")?;
        u32::try_from(pid).context("read the pid")
    }

    /// The verbose status of a container.
    pub async fn container_info(&self, container: &str) -> Result<serde_json::Value> {
        let request = v1::ContainerStatusRequest { container_id: container.to_owned(), verbose: true };
        let status = self.runtime.clone().container_status(request).await.context("ContainerStatus")?;
        let info = status.into_inner().info.remove("info").context("info in the verbose status")?;
        serde_json::from_str(&info).context("parse the verbose status")
    }

    /// The verbose status of a sandbox.
    pub async fn sandbox_info(&self, sandbox: &str) -> Result<serde_json::Value> {
        let request = v1::PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned(), verbose: true };
        let status = self.runtime.clone().pod_sandbox_status(request).await.context("PodSandboxStatus")?;
        let info = status.into_inner().info.remove("info").context("info in the verbose status")?;
        serde_json::from_str(&info).context("parse the verbose status")
    }
}

fn sorted(map: HashMap<String, String>) -> BTreeMap<String, String> {
    map.into_iter().collect()
}

fn sandbox_view(sandbox: v1::PodSandbox) -> SandboxView {
    let ready = sandbox.state() == v1::PodSandboxState::SandboxReady;
    let metadata = sandbox.metadata.unwrap_or_default();
    SandboxView {
        id: sandbox.id,
        pod: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        attempt: metadata.attempt,
        ready,
        created_at: sandbox.created_at,
        labels: sorted(sandbox.labels),
        annotations: sorted(sandbox.annotations),
    }
}

fn container_view(sandbox: String, status: v1::ContainerStatus) -> ContainerView {
    let state = status.state();
    let metadata = status.metadata.unwrap_or_default();
    let label = |name: &str| status.labels.get(name).cloned().unwrap_or_default();
    ContainerView {
        sandbox,
        pod: label("io.kubernetes.pod.name"),
        uid: label("io.kubernetes.pod.uid"),
        name: metadata.name,
        attempt: metadata.attempt,
        state,
        created_at: status.created_at,
        started_at: status.started_at,
        finished_at: status.finished_at,
        exit_code: status.exit_code,
        image: status.image.map(|image| image.image).unwrap_or_default(),
        log_path: status.log_path,
        mounts: status
            .mounts
            .into_iter()
            .map(|mount| (mount.container_path, mount.host_path, mount.readonly))
            .collect(),
        labels: sorted(status.labels),
        annotations: sorted(status.annotations),
        id: status.id,
    }
}
