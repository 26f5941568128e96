use std::path::Path;

use async_trait::async_trait;
use model::usage::WritableLayer;
use model::{
    CgroupDriver, ContainerSpec, ContainerStatus, ExecOutput, ImageAuth, ImageFilesystems, ImageSpec,
    ImageStatus, LinuxResources, PodFullName, RuntimeConditions, RuntimeVersion, SandboxId, SandboxSpec,
    SandboxStatus, StreamChoice,
};
use ports::clock::SystemClock;
use ports::host::pod_folders::FileError;
use ports::runtime::{
    Containers, Images, Lists as PodListing, RuntimeErrorKind, RuntimeEvents, RuntimeService,
    RuntimeStatisticsSource, Sandboxes, Streaming,
};

use super::*;
use crate::node::runtime_health::checker;
use crate::pipeline::observation::observations;

/// A runtime that panics in every observation.
struct PanickingRuntime;

fn unimplemented<T>() -> Result<T, RuntimeError> {
    Err(RuntimeError { operation: "any", kind: RuntimeErrorKind::Unimplemented, message: String::new() })
}

#[async_trait]
impl Sandboxes for PanickingRuntime {
    async fn run_sandbox(&self, _: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        unimplemented()
    }
    async fn stop_sandbox(&self, _: &SandboxId) -> Result<(), RuntimeError> {
        unimplemented()
    }
    async fn remove_sandbox(&self, _: &SandboxId) -> Result<(), RuntimeError> {
        unimplemented()
    }
    async fn sandbox_status(&self, _: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        unimplemented()
    }
    async fn update_sandbox_resources(
        &self,
        _: &SandboxId,
        _: &LinuxResources,
        _: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        unimplemented()
    }
    async fn list_sandboxes(&self, _: Option<&PodUid>) -> Result<Vec<SandboxSummary>, RuntimeError> {
        panic!("observation panics")
    }
}

#[async_trait]
impl Containers for PanickingRuntime {
    async fn create_container(
        &self,
        _: &SandboxId,
        _: &ContainerSpec,
        _: &SandboxSpec,
    ) -> Result<ContainerId, RuntimeError> {
        unimplemented()
    }
    async fn start_container(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        unimplemented()
    }
    async fn stop_container(&self, _: &ContainerId, _: Duration) -> Result<(), RuntimeError> {
        unimplemented()
    }
    async fn remove_container(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        unimplemented()
    }
    async fn container_status(&self, _: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        unimplemented()
    }
    async fn list_containers(&self, _: Option<&PodUid>) -> Result<Vec<ContainerSummary>, RuntimeError> {
        unimplemented()
    }
    async fn reopen_container_log(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        unimplemented()
    }
    async fn exec(&self, _: &ContainerId, _: &[String], _: Duration) -> Result<ExecOutput, RuntimeError> {
        unimplemented()
    }
    async fn update_resources(&self, _: &ContainerId, _: &LinuxResources) -> Result<(), RuntimeError> {
        unimplemented()
    }
}

#[async_trait]
impl Images for PanickingRuntime {
    async fn image_status(&self, _: &ImageSpec) -> Result<Option<ImageStatus>, RuntimeError> {
        unimplemented()
    }
    async fn pull_image(
        &self,
        _: &ImageSpec,
        _: Option<&ImageAuth>,
        _: &SandboxSpec,
    ) -> Result<String, RuntimeError> {
        unimplemented()
    }
    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        unimplemented()
    }
    async fn remove_image(&self, _: &ImageSpec) -> Result<(), RuntimeError> {
        unimplemented()
    }
    async fn image_filesystems(&self) -> Result<ImageFilesystems, RuntimeError> {
        unimplemented()
    }
}

#[async_trait]
impl PodListing for PanickingRuntime {
    async fn list_pods(&self, _: Option<ListMark>) -> Result<PodLists, RuntimeError> {
        std::future::pending().await
    }
}

#[async_trait]
impl RuntimeService for PanickingRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        unimplemented()
    }
    async fn conditions(&self) -> Result<RuntimeConditions, RuntimeError> {
        unimplemented()
    }
    async fn cgroup_driver(&self) -> Result<CgroupDriver, RuntimeError> {
        unimplemented()
    }
    async fn set_pod_cidr(&self, _: &str) -> Result<(), RuntimeError> {
        unimplemented()
    }
    async fn events(&self) -> Result<RuntimeEvents, RuntimeError> {
        unimplemented()
    }
}

#[async_trait]
impl RuntimeStatisticsSource for PanickingRuntime {
    async fn writable_layers(&self) -> Result<Vec<(ContainerId, WritableLayer)>, RuntimeError> {
        unimplemented()
    }
    async fn sandbox_image(&self, _: &SandboxId) -> Result<Option<String>, RuntimeError> {
        unimplemented()
    }
}

#[async_trait]
impl Streaming for PanickingRuntime {
    async fn exec_url(&self, _: &ContainerId, _: &[String], _: StreamChoice) -> Result<String, RuntimeError> {
        unimplemented()
    }
    async fn attach_url(&self, _: &ContainerId, _: StreamChoice) -> Result<String, RuntimeError> {
        unimplemented()
    }
    async fn port_forward_url(&self, _: &SandboxId, _: &[u16]) -> Result<String, RuntimeError> {
        unimplemented()
    }
}

#[async_trait]
impl TerminationMessages for PanickingRuntime {
    async fn message_file(&self, _: &PodUid, _: &Path, _: u64) -> Result<Option<Vec<u8>>, FileError> {
        Ok(None)
    }
    async fn log_end(&self, _: &Path, _: u64) -> Result<Option<Vec<u8>>, FileError> {
        Ok(None)
    }
}

#[async_trait]
impl ProcessWatch for PanickingRuntime {
    async fn exited(&self, _: u32) -> Result<(), std::io::Error> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn answers_request_when_observation_task_panics() {
    let (observations, observer) = observations(Vec::new());
    let (events, _received) = mpsc::channel(10);
    let deps = PlegDeps {
        runtime: Arc::new(PanickingRuntime),
        processes: Arc::new(PanickingRuntime),
        messages: Arc::new(PanickingRuntime),
        observations,
        events,
        health: checker(Arc::new(PanickingRuntime)).1,
        clock: Arc::new(SystemClock),
        metrics: Arc::default(),
        settings: PlegSettings::default(),
    };
    let name = PodFullName { namespace: "n".to_owned(), name: "p".to_owned() };
    let uid = PodUid::from("u");
    let request = async {
        let timeout = Duration::from_secs(20);
        tokio::time::timeout(timeout, observer.after(&uid, &name, Moment::START))
            .await
            .expect("an answer instead of endless requests")
    };
    let seen = tokio::select! {
        seen = request => seen,
        () = run(deps, CancellationToken::new()) => unreachable!("it runs until cancelled"),
    };
    assert_eq!(seen.observation, Observation::Failed("observation task panicked".to_owned()));
}
