use std::collections::{BTreeSet, HashMap};

use cri::v1::{
    Container as ContainerItem, ContainerConfig, ContainerMetadata, ContainerResources, ContainerState,
    ContainerStatus, Image, ImageSpec, LinuxContainerResources, LinuxPodSandboxStatus, Namespace,
    NamespaceMode, NamespaceOption, PodSandbox, PodSandboxConfig, PodSandboxMetadata,
    PodSandboxNetworkStatus, PodSandboxState, PodSandboxStatus,
};
use tokio_util::sync::CancellationToken;

use super::behaviour::ContainerBehaviour;

#[derive(Clone, Debug)]
pub struct Sandbox {
    pub id: String,
    /// The requested configuration.
    pub config: PodSandboxConfig,
    /// The requested runtime handler.
    pub runtime_handler: String,
    pub state: PodSandboxState,
    /// In nanoseconds of the fake's clock.
    pub created_at: i64,
    /// The pod's address; empty with host network.
    pub ip: String,
    pub containers: BTreeSet<String>,
}

impl Sandbox {
    #[must_use]
    pub fn metadata(&self) -> PodSandboxMetadata {
        self.config.metadata.clone().unwrap_or_default()
    }

    #[must_use]
    pub fn pod_uid(&self) -> &str {
        self.config.metadata.as_ref().map_or("", |metadata| &metadata.uid)
    }

    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state == PodSandboxState::SandboxReady
    }

    pub(crate) fn item(&self) -> PodSandbox {
        PodSandbox {
            id: self.id.clone(),
            metadata: self.config.metadata.clone(),
            state: self.state.into(),
            created_at: self.created_at,
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            runtime_handler: self.runtime_handler.clone(),
        }
    }

    pub(crate) fn status(&self) -> PodSandboxStatus {
        // containerd drops the address when it tears down the network.
        let ip = if self.is_ready() { self.ip.clone() } else { String::new() };
        PodSandboxStatus {
            id: self.id.clone(),
            metadata: self.config.metadata.clone(),
            state: self.state.into(),
            created_at: self.created_at,
            network: Some(PodSandboxNetworkStatus { ip, additional_ips: vec![] }),
            linux: Some(LinuxPodSandboxStatus {
                namespaces: Some(Namespace { options: Some(namespaces(&self.config)) }),
            }),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            runtime_handler: self.runtime_handler.clone(),
        }
    }
}

fn namespaces(config: &PodSandboxConfig) -> NamespaceOption {
    let security = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    security.and_then(|security| security.namespace_options.clone()).unwrap_or_default()
}

pub(crate) fn uses_host_network(config: &PodSandboxConfig) -> bool {
    namespaces(config).network() == NamespaceMode::Node
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: i32,
    /// The runtime's reason; empty for Completed or Error, which derive from the code.
    pub reason: String,
}

impl Exit {
    /// An exit with this code and its default reason.
    #[must_use]
    pub fn code(code: i32) -> Self {
        Self { code, reason: String::new() }
    }

    /// An OOM kill.
    #[must_use]
    pub fn oom_killed() -> Self {
        Self { code: super::behaviour::KILLED, reason: "OOMKilled".into() }
    }

    fn reason(&self) -> &str {
        match (self.reason.as_str(), self.code) {
            ("", 0) => "Completed",
            ("", _) => "Error",
            (reason, _) => reason,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Container {
    pub id: String,
    pub sandbox_id: String,
    pub pod_uid: String,
    /// The requested configuration.
    pub config: ContainerConfig,
    /// Absolute path of its log, which the fake creates and leaves empty.
    pub log_path: String,
    pub image: Image,
    pub behaviour: ContainerBehaviour,
    pub state: ContainerState,
    /// In nanoseconds of the fake's clock.
    pub created_at: i64,
    /// In nanoseconds of the fake's clock; 0 before the start.
    pub started_at: i64,
    /// In nanoseconds of the fake's clock; 0 before the end.
    pub finished_at: i64,
    /// Valid only in state EXITED.
    pub exit: Exit,
    /// The limits in force.
    pub resources: Option<LinuxContainerResources>,
    /// Timeouts of the StopContainer calls that found it running.
    pub stop_timeouts: Vec<i64>,
    pub log_reopens: u32,
    pub(crate) due: Option<(i64, Exit)>,
    pub(crate) exited: CancellationToken,
}

impl Container {
    #[must_use]
    pub fn name(&self) -> &str {
        self.config.metadata.as_ref().map_or("", |metadata| &metadata.name)
    }

    /// Number of earlier containers of this name in the pod.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.config.metadata.as_ref().map_or(0, |metadata| metadata.attempt)
    }

    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == ContainerState::ContainerRunning
    }

    pub(crate) fn metadata(&self) -> Option<ContainerMetadata> {
        self.config.metadata.clone()
    }

    pub(crate) fn labels(&self) -> &HashMap<String, String> {
        &self.config.labels
    }

    pub(crate) fn item(&self) -> ContainerItem {
        ContainerItem {
            id: self.id.clone(),
            pod_sandbox_id: self.sandbox_id.clone(),
            metadata: self.metadata(),
            image: self.config.image.clone(),
            image_ref: self.image.id.clone(),
            state: self.state.into(),
            created_at: self.created_at,
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            image_id: self.image.id.clone(),
        }
    }

    pub(crate) fn status(&self) -> ContainerStatus {
        let exited = self.state == ContainerState::ContainerExited;
        let shown_name = self.image.repo_tags.first().or(self.image.repo_digests.first()).cloned();
        ContainerStatus {
            id: self.id.clone(),
            metadata: self.metadata(),
            state: self.state.into(),
            created_at: self.created_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            exit_code: if exited { self.exit.code } else { 0 },
            image: Some(ImageSpec {
                image: shown_name.unwrap_or_default(),
                ..self.config.image.clone().unwrap_or_default()
            }),
            image_ref: self.image.repo_digests.first().unwrap_or(&self.image.id).clone(),
            reason: if exited { self.exit.reason().to_owned() } else { String::new() },
            message: String::new(),
            labels: self.config.labels.clone(),
            annotations: self.config.annotations.clone(),
            mounts: self.config.mounts.clone(),
            log_path: self.log_path.clone(),
            resources: self
                .resources
                .clone()
                .map(|linux| ContainerResources { linux: Some(linux), windows: None }),
            image_id: self.image.id.clone(),
            user: None,
            stop_signal: self.config.stop_signal,
        }
    }
}
