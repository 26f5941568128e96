use serde::{Deserialize, Serialize};

use crate::{PodFullName, PodUid, Timestamp};

/// A step on a pod's way to ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartStep {
    /// Folders, cgroup and volumes.
    Volumes,
    /// The image of a container, there or pulled.
    Image,
    /// The sandbox with its network.
    Sandbox,
    /// The container is made.
    Create,
    /// The container is started.
    Start,
    /// From the container's start to the first answer of a probe.
    FirstProbe,
}

impl StartStep {
    /// The word shown to users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Volumes => "volumes",
            Self::Image => "image",
            Self::Sandbox => "sandbox",
            Self::Create => "create",
            Self::Start => "start",
            Self::FirstProbe => "firstProbe",
        }
    }
}

/// From when to when a step was worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSpan {
    pub started_at: Timestamp,
    /// When it was over; `None` while it is under way.
    pub finished_at: Option<Timestamp>,
    /// Whether it did what it should.
    pub succeeded: bool,
}

/// A step of a pod, or of one of its containers, with the first time and the last time it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRecord {
    pub step: StartStep,
    /// Of which container; `None` for steps of the pod.
    pub container: Option<Box<str>>,
    pub first: StepSpan,
    /// The last time, if it was done more than once.
    pub last: Option<StepSpan>,
    /// How often it was begun.
    pub count: u32,
}

impl StepRecord {
    pub fn newest(&self) -> StepSpan {
        self.last.unwrap_or(self.first)
    }
}

/// How a pod came to run, since this agent knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTimeline {
    pub uid: PodUid,
    pub full_name: PodFullName,
    /// When its source showed it first.
    pub seen_at: Timestamp,
    /// When its worker took it.
    pub accepted_at: Timestamp,
    /// Whether it ran already when this agent met it.
    pub adopted: bool,
    /// When it was ready for the first time.
    pub ready_at: Option<Timestamp>,
    /// Steps, in the order in which they were begun first.
    pub steps: Vec<StepRecord>,
}
