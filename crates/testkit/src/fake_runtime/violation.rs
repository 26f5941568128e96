use std::fmt;

/// An operation that a correct agent never requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A pod got a second READY sandbox.
    TwoReadySandboxes { pod_uid: String, sandboxes: Vec<String> },
    /// A container of a pod runs twice.
    TwoRunningContainers { pod_uid: String, container: String, ids: Vec<String> },
    /// A container was created while one of the same attempt exists.
    CreatedTwice { pod_uid: String, container: String, attempt: u32 },
    /// A sandbox was created while one of the same attempt exists.
    SandboxCreatedTwice { pod_uid: String, attempt: u32 },
    /// A running container was started.
    StartedWhileRunning { id: String },
    /// An exited container was started.
    StartedAfterExit { id: String },
    /// A running container was removed without a stop.
    RemovedWhileRunning { id: String },
    /// A READY sandbox was removed without a stop.
    SandboxRemovedWhileReady { id: String },
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
