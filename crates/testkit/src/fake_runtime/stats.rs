use cri::v1::{
    ContainerAttributes, ContainerFilter, ContainerStats, ContainerStatsFilter, CpuUsage, MemoryUsage,
    UInt64Value,
};

use super::record::Container;
use super::runtime_state::RuntimeState;

/// Statistics of the running containers, all zero.
pub(crate) fn of_running(
    state: &RuntimeState,
    filter: ContainerStatsFilter,
    now: i64,
) -> Vec<ContainerStats> {
    let filter = ContainerFilter {
        id: filter.id,
        pod_sandbox_id: filter.pod_sandbox_id,
        label_selector: filter.label_selector,
        state: None,
    };
    state.select(&filter).filter(|container| container.is_running()).map(|one| idle(one, now)).collect()
}

fn idle(container: &Container, now: i64) -> ContainerStats {
    let zero = Some(UInt64Value { value: 0 });
    ContainerStats {
        attributes: Some(ContainerAttributes {
            id: container.id.clone(),
            metadata: container.metadata(),
            labels: container.config.labels.clone(),
            annotations: container.config.annotations.clone(),
        }),
        cpu: Some(CpuUsage { timestamp: now, usage_core_nano_seconds: zero, ..Default::default() }),
        memory: Some(MemoryUsage { timestamp: now, working_set_bytes: zero, ..Default::default() }),
        ..Default::default()
    }
}
