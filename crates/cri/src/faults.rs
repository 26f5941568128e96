//! Faults of CRI calls, for tests and game days.
//!
//! [`Transport`] is the channel of every call. With [`Faults`] it delays, fails, hangs, or loses the answer of the calls that
//! match a rule, cuts streams, and duplicates or reorders their messages.

mod stream;
mod subjects;
mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tonic::Code;

use subjects::{Subject, Subjects};
pub use transport::Transport;

/// Names of the calls, as in the proto files.
pub const CALLS: [&str; 41] = [
    "Version",
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "PodSandboxStatus",
    "ListPodSandbox",
    "StreamPodSandboxes",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "ListContainers",
    "StreamContainers",
    "ContainerStatus",
    "UpdateContainerResources",
    "UpdatePodSandboxResources",
    "ReopenContainerLog",
    "CheckpointContainer",
    "ExecSync",
    "Exec",
    "Attach",
    "PortForward",
    "ContainerStats",
    "ListContainerStats",
    "StreamContainerStats",
    "PodSandboxStats",
    "ListPodSandboxStats",
    "StreamPodSandboxStats",
    "ListMetricDescriptors",
    "ListPodSandboxMetrics",
    "StreamPodSandboxMetrics",
    "UpdateRuntimeConfig",
    "Status",
    "RuntimeConfig",
    "GetContainerEvents",
    "ListImages",
    "StreamImages",
    "ImageStatus",
    "PullImage",
    "RemoveImage",
    "ImageFsInfo",
];

/// A fault and the calls that it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// One of [`CALLS`]; `None` matches all.
    pub call: Option<String>,
    /// UID, or `namespace/name`; `None` matches all calls, also those that concern no single pod.
    pub pod: Option<String>,
    /// The first matching calls are not hit.
    pub skip: u64,
    /// How many calls are hit; `None` for no limit.
    pub count: Option<u64>,
    /// Probability of a hit.
    pub percent: u8,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call begins later.
    Delay(Duration),
    /// The call fails, and the runtime does not get it.
    Error { code: Code, message: String },
    /// The runtime does not get the call, and there is no answer.
    Hang,
    /// The runtime does its work, but the call fails.
    LoseAnswer { code: Code },
    /// A stream breaks after this many messages.
    CutStream { after: u64 },
    /// Every message of a stream arrives twice.
    DuplicateMessages,
    /// Every second message of a stream arrives before the one that the runtime sent first.
    ReorderMessages,
}

/// The active rules, with the number of calls that they have hit.
#[derive(Debug)]
pub struct Faults {
    rules: Vec<ActiveRule>,
    subjects: Subjects,
}

#[derive(Debug)]
struct ActiveRule {
    rule: FaultRule,
    matched: AtomicU64,
    hits: AtomicU64,
}

impl Faults {
    #[must_use]
    pub fn new(rules: Vec<FaultRule>) -> Arc<Self> {
        let active = |rule| ActiveRule { rule, matched: AtomicU64::new(0), hits: AtomicU64::new(0) };
        Arc::new(Self { rules: rules.into_iter().map(active).collect(), subjects: Subjects::default() })
    }

    /// Calls that were hit so far, per rule.
    #[must_use]
    pub fn hits(&self) -> Vec<u64> {
        self.rules.iter().map(|rule| rule.hits.load(Ordering::Relaxed)).collect()
    }

    /// The faults of a call, in the order of the rules. `random` returns numbers in `0..1`.
    fn of_call(&self, call: &str, subject: &Subject, random: impl Fn() -> f64) -> Vec<Fault> {
        let hit = |active: &&ActiveRule| active.rule.matches(call, subject) && active.hit(random());
        self.rules.iter().filter(hit).map(|active| active.rule.fault.clone()).collect()
    }
}

impl FaultRule {
    fn matches(&self, call: &str, subject: &Subject) -> bool {
        self.call.as_deref().is_none_or(|expected| expected == call)
            && self.pod.as_deref().is_none_or(|pod| subject.is_pod(pod))
    }
}

impl ActiveRule {
    fn hit(&self, random: f64) -> bool {
        if self.matched.fetch_add(1, Ordering::Relaxed) < self.rule.skip
            || random * 100.0 >= f64::from(self.rule.percent)
        {
            return false;
        }
        let limit = self.rule.count.unwrap_or(u64::MAX);
        let count = |hits: u64| (hits < limit).then(|| hits + 1);
        self.hits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}

#[cfg(test)]
mod tests;
