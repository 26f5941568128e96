//! Facts about the agent itself that it exports as metrics.

use std::sync::Arc;

use agent::node::agent_metrics::{AgentMetrics, FeatureGateState};
use config::{KUBERNETES_VERSION, LoadedConfig, Stage};
use host::OwnProcessUsage;
use model::CgroupVersion;

pub(crate) fn agent_metrics(loaded: &LoadedConfig, cgroups: CgroupVersion) -> AgentMetrics {
    let gates = loaded.gates.all().map(|(name, stage, enabled)| FeatureGateState {
        name: name.to_owned(),
        stage: match stage {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Stable => "",
            Stage::Deprecated => "DEPRECATED",
        },
        enabled,
    });
    AgentMetrics {
        version: KUBERNETES_VERSION.to_owned(),
        gates: gates.collect(),
        cgroup_version: match cgroups {
            CgroupVersion::V1 => 1,
            CgroupVersion::V2 => 2,
        },
        process: Arc::new(OwnProcessUsage),
    }
}
