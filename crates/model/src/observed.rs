use crate::{ContainerState, ContainerStatus, Moment, PodFullName, PodUid, SandboxState, SandboxStatus};

/// The state of one pod in the runtime at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedPod {
    /// UID.
    pub uid: PodUid,
    /// Namespace and name by the runtime's labels.
    pub full_name: PodFullName,
    pub sandboxes: Vec<SandboxStatus>,
    pub containers: Vec<ContainerStatus>,
    pub moment: Moment,
    pub observation: Observation,
}

/// Whether an observation can be planned on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Everything was read.
    Complete,
    /// The runtime did not answer for this pod; sandboxes and containers are the last known ones.
    Failed(String),
    /// The pod is in the runtime's lists and was not looked at yet.
    Listed {
        /// Whether one of its containers runs.
        runs: bool,
    },
}

impl ObservedPod {
    /// A pod of which the runtime holds nothing.
    pub fn absent(uid: PodUid, full_name: PodFullName, moment: Moment) -> Self {
        Self {
            uid,
            full_name,
            sandboxes: Vec::new(),
            containers: Vec::new(),
            moment,
            observation: Observation::Complete,
        }
    }

    /// Whether the runtime holds nothing of it.
    pub fn is_absent(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// The newest container of that name.
    pub fn container(&self, name: &str) -> Option<&ContainerStatus> {
        self.containers.iter().find(|status| status.name == name)
    }

    /// All containers of that name, newest first.
    pub fn containers_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ContainerStatus> {
        self.containers.iter().filter(move |status| status.name == name)
    }

    /// Containers that run, or may run because their state is unknown.
    pub fn running(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.containers
            .iter()
            .filter(|status| matches!(status.state, ContainerState::Running | ContainerState::Unknown))
    }

    /// Whether any container or sandbox is alive.
    pub fn is_alive(&self) -> bool {
        self.running().next().is_some() || self.sandboxes.iter().any(|s| s.state == SandboxState::Ready)
    }

    /// The pod's addresses: those of the newest sandbox that has any.
    pub fn ips(&self) -> &[String] {
        let reported = self.sandboxes.iter().filter_map(|sandbox| sandbox.ips.as_deref());
        reported.into_iter().find(|ips| !ips.is_empty()).unwrap_or_default()
    }
}
