use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ContainerId;

/// Probe results of a pod's containers, by container name. A container without an entry, or whose entry has another
/// container id, has no result yet.
pub type ProbeResults = BTreeMap<String, ContainerProbeResults>;

/// Probe results of one container. `None`: the container has no such probe, or the probe has no result yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerProbeResults {
    pub id: ContainerId,
    pub startup: Option<ProbeResult>,
    pub readiness: Option<ProbeResult>,
    pub liveness: Option<ProbeResult>,
}

/// The result of a probe after applying its thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeResult {
    Success,
    Failure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeKind {
    /// A failure restarts the container.
    Liveness,
    /// Sets the `Ready` condition.
    Readiness,
    /// The other probes begin after its success.
    Startup,
}

impl ProbeKind {
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// The name in events and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
            Self::Startup => "Startup",
        }
    }
}
