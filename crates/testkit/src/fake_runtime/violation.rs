use std::fmt;

/// Something that no correct agent makes a runtime do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A pod got a second READY sandbox.
    TwoReadySandboxes {
        /// The pod.
        pod_uid: String,
        /// The sandboxes that are READY.
        sandboxes: Vec<String>,
    },
    /// A container of a pod runs twice.
    TwoRunningContainers {
        /// The pod.
        pod_uid: String,
        /// The container's name.
        container: String,
        /// The containers that are RUNNING.
        ids: Vec<String>,
    },
    /// A container was to be created though one of the same attempt exists.
    CreatedTwice {
        /// The pod.
        pod_uid: String,
        /// The container's name.
        container: String,
        /// The attempt.
        attempt: u32,
    },
    /// A sandbox was to be created though one of the same attempt exists.
    SandboxCreatedTwice {
        /// The pod.
        pod_uid: String,
        /// The attempt.
        attempt: u32,
    },
    /// A container was to be started though it ran already.
    StartedWhileRunning {
        /// The container.
        id: String,
    },
    /// A container was to be started though it had ended.
    StartedAfterExit {
        /// The container.
        id: String,
    },
    /// A running container was removed without having been stopped.
    RemovedWhileRunning {
        /// The container.
        id: String,
    },
    /// A READY sandbox was removed without having been stopped.
    SandboxRemovedWhileReady {
        /// The sandbox.
        id: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoReadySandboxes { pod_uid, sandboxes } => {
                write!(f, "pod {pod_uid} has {} ready sandboxes: {}", sandboxes.len(), sandboxes.join(", "))
            }
            Self::TwoRunningContainers { pod_uid, container, ids } => {
                write!(
                    f,
                    "container {container} of pod {pod_uid} runs {} times: {}",
                    ids.len(),
                    ids.join(", ")
                )
            }
            Self::CreatedTwice { pod_uid, container, attempt } => {
                write!(f, "container {container} of pod {pod_uid} was created twice for attempt {attempt}")
            }
            Self::SandboxCreatedTwice { pod_uid, attempt } => {
                write!(f, "the sandbox of pod {pod_uid} was created twice for attempt {attempt}")
            }
            Self::StartedWhileRunning { id } => write!(f, "container {id} was started while running"),
            Self::StartedAfterExit { id } => write!(f, "container {id} was started after its end"),
            Self::RemovedWhileRunning { id } => write!(f, "container {id} was removed while running"),
            Self::SandboxRemovedWhileReady { id } => write!(f, "sandbox {id} was removed while ready"),
        }
    }
}
