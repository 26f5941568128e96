//! Tests the rules of the fake with the generated client over a real socket.

mod behaviours;
mod calls;
mod containers;
mod events;
mod images;
mod sandboxes;
mod scale;
mod serving;

use std::sync::Arc;

use cri::v1::image_service_client::ImageServiceClient;
use cri::v1::runtime_service_client::RuntimeServiceClient;
use cri::v1::*;
use model::labels::POD_UID;
use tempfile::TempDir;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{FakeRuntime, Machine, tokio_clock};

/// The image that the tests use; always present.
const IMAGE: &str = "registry.example/app:1";

/// A runtime on a socket and its client.
fn node() -> (FakeRuntime, Client) {
    let folder = tempfile::tempdir().unwrap();
    let fake = FakeRuntime::start(folder.path().join("cri.sock")).unwrap();
    fake.add_image(IMAGE);
    let client = Client { _folder: Some(Arc::new(folder)), ..Client::of(&fake) };
    (fake, client)
}

/// Without a socket and with tokio's clock, so that time can be paused.
fn node_in_memory() -> (FakeRuntime, Client) {
    let fake = FakeRuntime::start_in_memory(tokio_clock(1_000)).unwrap();
    fake.add_image(IMAGE);
    let client = Client::of(&fake);
    (fake, client)
}

#[derive(Clone)]
struct Client {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    _folder: Option<Arc<TempDir>>,
}

impl Client {
    fn of(fake: &FakeRuntime) -> Self {
        let channel = fake.channel();
        Self {
            runtime: RuntimeServiceClient::new(channel.clone()),
            images: ImageServiceClient::new(channel),
            _folder: None,
        }
    }

    async fn run(&mut self, uid: &str, attempt: u32) -> Result<String, Status> {
        let request =
            RunPodSandboxRequest { config: Some(pod(uid, attempt)), runtime_handler: String::new() };
        Ok(self.runtime.run_pod_sandbox(request).await?.into_inner().pod_sandbox_id)
    }

    async fn stop_sandbox(&mut self, id: &str) -> Result<(), Status> {
        let request = StopPodSandboxRequest { pod_sandbox_id: id.into() };
        self.runtime.stop_pod_sandbox(request).await.map(|_| ())
    }

    async fn remove_sandbox(&mut self, id: &str) -> Result<(), Status> {
        let request = RemovePodSandboxRequest { pod_sandbox_id: id.into() };
        self.runtime.remove_pod_sandbox(request).await.map(|_| ())
    }

    async fn sandbox(&mut self, id: &str) -> Result<PodSandboxStatus, Status> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.into(), verbose: false };
        Ok(self.runtime.pod_sandbox_status(request).await?.into_inner().status.unwrap())
    }

    async fn create(&mut self, sandbox: &str, name: &str, attempt: u32) -> Result<String, Status> {
        let uid = self.sandbox(sandbox).await.map(|status| status.metadata.unwrap().uid).unwrap_or_default();
        self.create_from(sandbox, container(&uid, name, attempt)).await
    }

    async fn create_from(&mut self, sandbox: &str, config: ContainerConfig) -> Result<String, Status> {
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.into(),
            config: Some(config),
            sandbox_config: None,
        };
        Ok(Box::pin(self.runtime.create_container(request)).await?.into_inner().container_id)
    }

    async fn start(&mut self, id: &str) -> Result<(), Status> {
        self.runtime.start_container(StartContainerRequest { container_id: id.into() }).await.map(|_| ())
    }

    async fn stop(&mut self, id: &str, timeout: i64) -> Result<(), Status> {
        let request = StopContainerRequest { container_id: id.into(), timeout };
        self.runtime.stop_container(request).await.map(|_| ())
    }

    async fn remove(&mut self, id: &str) -> Result<(), Status> {
        self.runtime.remove_container(RemoveContainerRequest { container_id: id.into() }).await.map(|_| ())
    }

    async fn status(&mut self, id: &str) -> Result<ContainerStatus, Status> {
        let request = ContainerStatusRequest { container_id: id.into(), verbose: false };
        Ok(self.runtime.container_status(request).await?.into_inner().status.unwrap())
    }

    /// Starts a pod with one container and returns both IDs.
    async fn running(&mut self, uid: &str) -> (String, String) {
        let sandbox = self.run(uid, 0).await.unwrap();
        let container = self.create(&sandbox, "main", 0).await.unwrap();
        self.start(&container).await.unwrap();
        (sandbox, container)
    }

    async fn sandboxes(&mut self, filter: PodSandboxFilter) -> Vec<String> {
        let request = ListPodSandboxRequest { filter: Some(filter) };
        let answer = self.runtime.list_pod_sandbox(request).await.unwrap().into_inner();
        answer.items.into_iter().map(|item| item.id).collect()
    }

    async fn containers(&mut self, filter: ContainerFilter) -> Vec<String> {
        let request = ListContainersRequest { filter: Some(filter) };
        let answer = self.runtime.list_containers(request).await.unwrap().into_inner();
        answer.containers.into_iter().map(|item| item.id).collect()
    }
}

fn pod(uid: &str, attempt: u32) -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: format!("pod-{uid}"),
            uid: uid.into(),
            namespace: "default".into(),
            attempt,
        }),
        log_directory: format!("/var/log/pods/{uid}"),
        labels: [(POD_UID.to_owned(), uid.to_owned())].into(),
        ..Default::default()
    }
}

fn container(uid: &str, name: &str, attempt: u32) -> ContainerConfig {
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.into(), attempt }),
        image: Some(ImageSpec { image: IMAGE.into(), ..Default::default() }),
        log_path: format!("{name}/{attempt}.log"),
        labels: [(POD_UID.to_owned(), uid.to_owned())].into(),
        ..Default::default()
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code()
}

fn assert_no_violations(machine: &Machine) {
    assert_eq!(machine.violations(), []);
}
