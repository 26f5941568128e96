use std::path::Path;

use async_trait::async_trait;
use model::usage::WritableLayer;
use model::{
    CgroupDriver, ContainerSpec, ContainerStatus, ExecOutput, ImageAuth, ImageFilesystems, ImageSpec,
    ImageStatus, LinuxResources, PodFullName, RuntimeConditions, RuntimeVersion, SandboxId, SandboxSpec,
    SandboxStatus, StreamChoice,
};
use ports::clock::SystemClock;
use ports::pod_folders::FileError;
use ports::runtime::{
    Containers, Images, Lists as PodListing, RuntimeErrorKind, RuntimeEvents, RuntimeFigures, RuntimeService,
    Sandboxes, Streaming,
};

use super::*;
use crate::observation::observations;
use crate::runtime_health::checker;

/// A runtime of which every look at a pod breaks off.
struct Broken;

fn no<T>() -> Result<T, RuntimeError> {
    Err(RuntimeError { operation: "any", kind: RuntimeErrorKind::Unimplemented, message: String::new() })
}

#[async_trait]
impl Sandboxes for Broken {
    async fn run_sandbox(&self, _: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        no()
    }
    async fn stop_sandbox(&self, _: &SandboxId) -> Result<(), RuntimeError> {
        no()
    }
    async fn remove_sandbox(&self, _: &SandboxId) -> Result<(), RuntimeError> {
        no()
    }
    async fn sandbox_status(&self, _: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        no()
    }
    async fn update_sandbox_resources(
        &self,
        _: &SandboxId,
        _: &LinuxResources,
        _: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        no()
    }
    async fn list_sandboxes(&self, _: Option<&PodUid>) -> Result<Vec<SandboxSummary>, RuntimeError> {
        panic!("a look that breaks off")
    }
}

#[async_trait]
impl Containers for Broken {
    async fn create_container(
        &self,
        _: &SandboxId,
        _: &ContainerSpec,
        _: &SandboxSpec,
    ) -> Result<ContainerId, RuntimeError> {
        no()
    }
    async fn start_container(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        no()
    }
    async fn stop_container(&self, _: &ContainerId, _: Duration) -> Result<(), RuntimeError> {
        no()
    }
    async fn remove_container(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        no()
    }
    async fn container_status(&self, _: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        no()
    }
    async fn list_containers(&self, _: Option<&PodUid>) -> Result<Vec<ContainerSummary>, RuntimeError> {
        no()
    }
    async fn reopen_container_log(&self, _: &ContainerId) -> Result<(), RuntimeError> {
        no()
    }
    async fn exec(&self, _: &ContainerId, _: &[String], _: Duration) -> Result<ExecOutput, RuntimeError> {
        no()
    }
    async fn update_resources(&self, _: &ContainerId, _: &LinuxResources) -> Result<(), RuntimeError> {
        no()
    }
}

#[async_trait]
impl Images for Broken {
    async fn image_status(&self, _: &ImageSpec) -> Result<Option<ImageStatus>, RuntimeError> {
        no()
    }
    async fn pull_image(
        &self,
        _: &ImageSpec,
        _: Option<&ImageAuth>,
        _: &SandboxSpec,
    ) -> Result<String, RuntimeError> {
        no()
    }
    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        no()
    }
    async fn remove_image(&self, _: &ImageSpec) -> Result<(), RuntimeError> {
        no()
    }
    async fn image_filesystems(&self) -> Result<ImageFilesystems, RuntimeError> {
        no()
    }
}

#[async_trait]
impl PodListing for Broken {
    async fn list_pods(&self, _: Option<ListMark>) -> Result<PodLists, RuntimeError> {
        std::future::pending().await
    }
}

#[async_trait]
impl RuntimeService for Broken {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        no()
    }
    async fn conditions(&self) -> Result<RuntimeConditions, RuntimeError> {
        no()
    }
    async fn cgroup_driver(&self) -> Result<CgroupDriver, RuntimeError> {
        no()
    }
    async fn set_pod_cidr(&self, _: &str) -> Result<(), RuntimeError> {
        no()
    }
    async fn events(&self) -> Result<RuntimeEvents, RuntimeError> {
        no()
    }
}

#[async_trait]
impl RuntimeFigures for Broken {
    async fn writable_layers(&self) -> Result<Vec<(ContainerId, WritableLayer)>, RuntimeError> {
        no()
    }
    async fn sandbox_image(&self, _: &SandboxId) -> Result<Option<String>, RuntimeError> {
        no()
    }
}

#[async_trait]
impl Streaming for Broken {
    async fn exec_url(&self, _: &ContainerId, _: &[String], _: StreamChoice) -> Result<String, RuntimeError> {
        no()
    }
    async fn attach_url(&self, _: &ContainerId, _: StreamChoice) -> Result<String, RuntimeError> {
        no()
    }
    async fn port_forward_url(&self, _: &SandboxId, _: &[u16]) -> Result<String, RuntimeError> {
        no()
    }
}

#[async_trait]
impl TerminationMessages for Broken {
    async fn message_file(&self, _: &PodUid, _: &Path, _: u64) -> Result<Option<Vec<u8>>, FileError> {
        Ok(None)
    }
    async fn log_end(&self, _: &Path, _: u64) -> Result<Option<Vec<u8>>, FileError> {
        Ok(None)
    }
}

#[async_trait]
impl ProcessWatch for Broken {
    async fn exited(&self, _: u32) -> Result<(), std::io::Error> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn who_waits_for_a_look_that_breaks_off_is_told() {
    let (observations, observer) = observations(Vec::new());
    let (events, _received) = mpsc::channel(10);
    let parts = Parts {
        runtime: Arc::new(Broken),
        processes: Arc::new(Broken),
        messages: Arc::new(Broken),
        observations,
        events,
        health: checker(Arc::new(Broken)).1,
        clock: Arc::new(SystemClock),
        metrics: Arc::default(),
        settings: Settings::default(),
    };
    let name = PodFullName { namespace: "n".to_owned(), name: "p".to_owned() };
    let uid = PodUid::from("u");
    let asked = async {
        let patience = Duration::from_secs(20);
        tokio::time::timeout(patience, observer.after(&uid, &name, Moment::START))
            .await
            .expect("asks for ever")
    };
    let seen = tokio::select! {
        seen = asked => seen,
        () = run(parts, CancellationToken::new()) => unreachable!("it runs until cancelled"),
    };
    assert_eq!(seen.observation, Observation::Failed("the look broke off".to_owned()));
}
