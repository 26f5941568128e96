//! Statistics of containers and sandboxes. A container that does not run has only the size of its writable layer.

use std::path::Path;
use std::sync::Arc;

use cri::v1::{
    ContainerAttributes, ContainerStats, CpuUsage, FilesystemIdentifier, FilesystemUsage, IoUsage,
    LinuxPodSandboxStats, MemoryUsage, NetworkInterfaceUsage, NetworkUsage, PodSandboxAttributes,
    PodSandboxStats, ProcessUsage, PsiData, PsiStats, SwapUsage, UInt64Value,
};

use crate::cgroups::{CgroupStatistics, ContainerCgroup, Pressure, Stall};
use crate::containers::Container;
use crate::errors::ServiceError;
use crate::network::InterfaceCounters;
use crate::records::LifeState;
use crate::sandboxes::Sandbox;
use crate::shared::{Shared, blocking};

/// The interface that networks give every pod.
const DEFAULT_INTERFACE: &str = "eth0";

pub(super) async fn of_container(
    shared: &Arc<Shared>,
    container: &Arc<Container>,
) -> Result<ContainerStats, ServiceError> {
    let (shared, container) = (shared.clone(), container.clone());
    blocking(move || Ok(read_container(&shared, &container))).await
}

/// A sandbox with its running containers. The numbers of the pod are those of the cgroup that the caller made for it.
pub(super) async fn of_sandbox(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
) -> Result<PodSandboxStats, ServiceError> {
    let (shared, sandbox) = (shared.clone(), sandbox.clone());
    blocking(move || Ok(read_sandbox(&shared, &sandbox))).await
}

fn value(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}

fn cpu(shared: &Shared, id: &str, statistics: &CgroupStatistics, timestamp: i64) -> Option<CpuUsage> {
    let used = statistics.cpu_nanoseconds?;
    let rate = shared.cpu_rates.record(id, timestamp, used);
    Some(CpuUsage {
        timestamp,
        usage_core_nano_seconds: value(used),
        usage_nano_cores: rate.and_then(value),
        psi: statistics.cpu_pressure.map(psi),
    })
}

fn memory(statistics: &CgroupStatistics, timestamp: i64) -> Option<MemoryUsage> {
    let memory = statistics.memory?;
    Some(MemoryUsage {
        timestamp,
        working_set_bytes: value(memory.working_set),
        available_bytes: value(memory.limit.map_or(0, |limit| limit.saturating_sub(memory.working_set))),
        usage_bytes: value(memory.usage),
        rss_bytes: value(memory.rss),
        page_faults: value(memory.page_faults),
        major_page_faults: value(memory.major_page_faults),
        psi: statistics.memory_pressure.map(psi),
    })
}

fn io(statistics: &CgroupStatistics, timestamp: i64) -> Option<IoUsage> {
    Some(IoUsage { timestamp, psi: Some(psi(statistics.io_pressure?)) })
}

fn psi(pressure: Pressure) -> PsiStats {
    let data = |stall: Stall| PsiData {
        total: stall.total_nanoseconds,
        avg10: stall.average_10,
        avg60: stall.average_60,
        avg300: stall.average_300,
    };
    PsiStats { full: pressure.full.map(data), some: pressure.some.map(data) }
}

/// None for a pod in the network of the host.
fn network(interfaces: &[InterfaceCounters], timestamp: i64) -> Option<NetworkUsage> {
    let usage = |interface: &InterfaceCounters| NetworkInterfaceUsage {
        name: interface.name.clone(),
        rx_bytes: value(interface.received.bytes),
        rx_errors: value(interface.received.errors),
        tx_bytes: value(interface.sent.bytes),
        tx_errors: value(interface.sent.errors),
    };
    let (default, others): (Vec<_>, Vec<_>) =
        interfaces.iter().partition(|interface| interface.name == DEFAULT_INTERFACE);
    (!interfaces.is_empty()).then(|| NetworkUsage {
        timestamp,
        default_interface: default.first().map(|interface| usage(interface)),
        interfaces: others.into_iter().map(usage).collect(),
    })
}

fn read_container(shared: &Shared, container: &Container) -> ContainerStats {
    let record = &container.record;
    let now = shared.now();
    let running = matches!(container.life(), LifeState::Running { .. });
    let statistics = match running {
        true => ContainerCgroup::at(&shared.cgroups, &record.cgroup).statistics(),
        false => CgroupStatistics::default(),
    };
    // A container that is being removed has no layer any more.
    let layer = shared.store.writable_usage(&record.id).ok().map(|usage| FilesystemUsage {
        timestamp: now,
        fs_id: Some(FilesystemIdentifier {
            mountpoint: shared.store.folder().to_string_lossy().into_owned(),
        }),
        used_bytes: value(usage.bytes),
        inodes_used: value(usage.inodes),
    });
    let swap = statistics.memory.and_then(|memory| {
        let used = memory.swap_usage?;
        let available = memory.swap_limit.and_then(|limit| value(limit.saturating_sub(used)));
        Some(SwapUsage { timestamp: now, swap_available_bytes: available, swap_usage_bytes: value(used) })
    });
    ContainerStats {
        attributes: Some(ContainerAttributes {
            id: record.id.clone(),
            metadata: record.config.metadata.clone(),
            labels: record.config.labels.clone(),
            annotations: record.config.annotations.clone(),
        }),
        cpu: cpu(shared, &record.id, &statistics, now),
        memory: memory(&statistics, now),
        writable_layer: layer,
        swap,
        io: io(&statistics, now),
    }
}

fn read_sandbox(shared: &Shared, sandbox: &Sandbox) -> PodSandboxStats {
    let record = &sandbox.record;
    let now = shared.now();
    let containers = shared.containers_of(&record.id);
    let running = containers.iter().filter(|found| matches!(found.life(), LifeState::Running { .. }));
    let processes = running.clone().filter_map(|container| {
        ContainerCgroup::at(&shared.cgroups, &container.record.cgroup).statistics().processes
    });
    let process_count = value(processes.sum());
    let parent = record.cgroup.parent().unwrap_or(Path::new(""));
    let statistics = ContainerCgroup::at(&shared.cgroups, parent).statistics();
    let linux = LinuxPodSandboxStats {
        cpu: cpu(shared, &record.id, &statistics, now),
        memory: memory(&statistics, now),
        network: network(&sandbox.interface_counters(), now),
        process: Some(ProcessUsage { timestamp: now, process_count }),
        containers: running.map(|container| read_container(shared, container)).collect(),
        io: io(&statistics, now),
    };
    PodSandboxStats {
        attributes: Some(PodSandboxAttributes {
            id: record.id.clone(),
            metadata: record.config.metadata.clone(),
            labels: record.config.labels.clone(),
            annotations: record.config.annotations.clone(),
        }),
        linux: Some(linux),
        windows: None,
    }
}
