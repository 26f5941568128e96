//! What the agent tells of itself in its metrics.

use std::sync::Arc;

use agent::agent_facts::{AgentFacts, GateFact};
use config::{KUBERNETES_VERSION, Loaded, Stage};
use host::OwnProcess;
use model::CgroupVersion;

/// The facts of an agent that was configured like this.
pub(crate) fn agent_facts(loaded: &Loaded, cgroups: CgroupVersion) -> AgentFacts {
    let gates = loaded.gates.all().map(|(name, stage, enabled)| GateFact {
        name: name.to_owned(),
        stage: match stage {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Stable => "",
            Stage::Deprecated => "DEPRECATED",
        },
        enabled,
    });
    AgentFacts {
        version: KUBERNETES_VERSION.to_owned(),
        gates: gates.collect(),
        cgroup_version: match cgroups {
            CgroupVersion::V1 => 1,
            CgroupVersion::V2 => 2,
        },
        process: Arc::new(OwnProcess),
    }
}
