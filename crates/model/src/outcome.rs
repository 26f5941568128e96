use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Rejection, Timestamp};

/// Why a container does not run at the moment, in the words of its `waiting` state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerProblem {
    /// One word such as `CrashLoopBackOff`.
    pub reason: String,
    pub message: String,
}

/// Problems by container name.
pub type ContainerProblems = BTreeMap<String, ContainerProblem>;

/// The result of one sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The pod keeps running.
    Running {
        /// Containers that could not be started, or wait for their backoff.
        problems: ContainerProblems,
        /// When the pod must be synced again at the latest, if earlier than the usual period.
        retry_at: Option<Timestamp>,
    },
    /// All containers have ended and none is restarted.
    Completed,
    /// The agent ends the pod.
    Rejected(Rejection),
}

/// Why one pass of a worker failed; the kind decides how soon it is tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncFailure {
    /// A newer command interrupted it.
    #[error("interrupted by a newer command")]
    Interrupted,
    /// The runtime is away; tried again as soon as it answers.
    #[error("{0}")]
    RuntimeUnavailable(String),
    /// The runtime is still at work on something a killed agent began.
    #[error("{0}")]
    Busy(String),
    /// The runtime's network is not ready.
    #[error("network is not ready: {0}")]
    NetworkNotReady(String),
    /// The pod could not be observed.
    #[error("pod cannot be observed: {0}")]
    Unobservable(String),
    /// A volume could not be set up.
    #[error("{message}")]
    MountFailed {
        message: String,
        /// When it is tried again.
        wait: Duration,
    },
    /// The node cannot do what the pod needs, as came out only now.
    #[error("{}", .0.status_message())]
    Rejected(Rejection),
    /// Something else failed.
    #[error("{message}")]
    Failed {
        message: String,
        /// Containers that could not be started.
        problems: ContainerProblems,
    },
}
