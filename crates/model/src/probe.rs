use std::collections::BTreeMap;

use crate::ContainerId;

/// What the probes of a pod's containers say, by container name. A container without an entry, or whose entry names
/// another container id, has not been judged.
pub type ProbeVerdicts = BTreeMap<String, ContainerVerdicts>;

/// What the probes of one container say. `None`: there is no such probe, or it has not judged yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerVerdicts {
    /// The container they judged.
    pub id: ContainerId,
    /// Startup probe.
    pub startup: Option<ProbeVerdict>,
    /// Readiness probe.
    pub readiness: Option<ProbeVerdict>,
    /// Liveness probe.
    pub liveness: Option<ProbeVerdict>,
}

/// What a probe says after its thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbeVerdict {
    /// Healthy.
    Success,
    /// Not healthy.
    Failure,
}

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Liveness: a failure restarts the container.
    Liveness,
    /// Readiness: changes what is reported.
    Readiness,
    /// Startup: a success lets the other probes begin.
    Startup,
}

impl ProbeKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// The word in events and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
            Self::Startup => "Startup",
        }
    }
}
