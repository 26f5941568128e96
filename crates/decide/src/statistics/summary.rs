//! `/stats/summary`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::statistics::{
    ClaimReference, ContainerStatistics, CpuStatistics, FsStatistics, InterfaceStatistics, IoStatistics,
    MemoryStatistics, NetworkStatistics, NodeStatistics, PodReference, PodStatistics, ProcessStatistics,
    RlimitStatistics, RuntimeStatistics, Summary, SwapStatistics, VolumeHealth, VolumeStatistics,
};
use model::usage::{DiskUse, FilesystemRoom, InterfaceUsage, ProcessCount, WritableLayer};
use model::{ContainerId, PodUid, Timestamp};

use super::readings::{PodReading, Reading};

/// The interface whose values are also shown at the top level.
const DEFAULT_INTERFACE: &str = "eth0";

/// The agent's name among the system containers.
pub const AGENT: &str = "kubelet";

/// Readings of the node.
#[derive(Clone, Debug, Default)]
pub struct NodeReading {
    pub name: String,
    pub root: Option<Reading>,
    /// System cgroups by name: `kubelet`, `runtime`, `misc`, `pods`.
    pub system: Vec<(&'static str, Reading)>,
    pub agent_started_at: Timestamp,
    pub booted_at: Option<Timestamp>,
    /// Installed memory in bytes.
    pub memory: u64,
    /// Swap in bytes.
    pub swap: u64,
}

/// Readings of files, networks and processes; a missing value was not requested or could not be read.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentReading {
    pub time: Timestamp,
    pub network: Vec<InterfaceUsage>,
    /// The file system of the root folder.
    pub node_fs: Option<FilesystemRoom>,
    /// The file system of images, and their use of it.
    pub image_fs: Option<(FilesystemRoom, DiskUse)>,
    /// The file system of writable layers, and their use of it.
    pub container_fs: Option<(FilesystemRoom, DiskUse)>,
    pub processes: Option<ProcessCount>,
    /// Use of each writable layer.
    pub layers: BTreeMap<ContainerId, WritableLayer>,
    pub files: BTreeMap<PodUid, PodFilesReading>,
}

/// Disk use of a pod.
#[derive(Clone, Debug)]
pub struct PodFilesReading {
    pub logs: BTreeMap<String, DiskUse>,
    /// The hosts file, termination messages, and logs without a container.
    pub others: DiskUse,
    pub volumes: Vec<VolumeReading>,
    /// Otherwise local volumes use more than the readings show.
    pub is_complete: bool,
}

impl Default for PodFilesReading {
    fn default() -> Self {
        Self { logs: BTreeMap::new(), others: DiskUse::default(), volumes: Vec::new(), is_complete: true }
    }
}

/// Reading of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeReading {
    pub name: String,
    pub claim: Option<ClaimReference>,
    pub time: Timestamp,
    pub room: FilesystemRoom,
    /// Use of the volume; `None` if it has a file system for itself.
    pub used: Option<DiskUse>,
    /// Whether the volume is abnormal, if the driver reports conditions.
    pub is_abnormal: Option<bool>,
    /// Whether it counts as ephemeral storage of the pod.
    pub is_local: bool,
}

/// The summary; without `environment` it has only CPU and memory.
pub fn summary(node: &NodeReading, pods: &[PodReading], environment: Option<&EnvironmentReading>) -> Summary {
    Summary {
        node: node_statistics(node, environment),
        pods: (pods.iter().filter(|pod| pod.pod.has_containers()))
            .map(|pod| pod_statistics(pod, environment))
            .collect(),
    }
}

fn node_statistics(node: &NodeReading, environment: Option<&EnvironmentReading>) -> NodeStatistics {
    let root = node.root.as_ref();
    let memory = root.map(|reading| {
        let left = node.memory.saturating_sub(reading.usage.memory.working_set);
        MemoryStatistics { available_bytes: Some(left), ..memory(reading) }
    });
    let swap = root.map(|reading| SwapStatistics {
        swap_available_bytes: Some(node.swap.saturating_sub(reading.usage.memory.swap)),
        ..swap(reading)
    });
    NodeStatistics {
        node_name: node.name.clone(),
        system_containers: node
            .system
            .iter()
            .map(|(name, reading)| {
                // The cgroup may be older than the agent.
                let started_at = match *name {
                    AGENT => node.agent_started_at,
                    _ => reading.usage.created_at,
                };
                container_of(name, started_at, Some(reading), environment.is_some())
            })
            .collect(),
        start_time: node.booted_at.map(Timestamp::to_api_time),
        cpu: root.map(cpu),
        memory,
        io: root.filter(|_| environment.is_some()).map(io),
        network: environment.and_then(|environment| network(&environment.network, environment.time)),
        fs: environment.and_then(|environment| environment.node_fs.map(|room| whole(room, environment.time))),
        runtime: environment.map(|environment| RuntimeStatistics {
            image_fs: environment.image_fs.map(|(room, used)| part(room, used, environment.time)),
            container_fs: environment.container_fs.map(|(room, used)| part(room, used, environment.time)),
        }),
        rlimit: environment.and_then(|environment| {
            let count = environment.processes?;
            Some(RlimitStatistics { time: time(environment.time), maxpid: count.max, curproc: count.current })
        }),
        swap,
    }
}

fn pod_statistics(pod: &PodReading, environment: Option<&EnvironmentReading>) -> PodStatistics {
    let cgroup = pod.cgroup.as_ref();
    let files = environment.and_then(|environment| environment.files.get(&pod.pod.uid));
    let containers = pod.pod.containers.iter().zip(&pod.containers).map(|(container, reading)| {
        let shown =
            container_of(&container.name, container.created_at, reading.as_ref(), environment.is_some());
        let Some(environment) = environment else { return shown };
        let layer = environment.layers.get(&container.id);
        let room = environment.container_fs.or(environment.image_fs).map(|(room, _)| room);
        let logs = files.and_then(|files| files.logs.get(&container.name)).copied();
        ContainerStatistics {
            rootfs: room.map(|room| match layer {
                Some(layer) => part(room, layer.used, layer.time),
                None => FsStatistics { used_bytes: None, inodes_used: None, ..whole(room, environment.time) },
            }),
            logs: environment.node_fs.zip(logs).map(|(room, used)| part(room, used, environment.time)),
            ..shown
        }
    });
    let containers: Vec<ContainerStatistics> = containers.collect();
    let count: u64 = pod.containers.iter().flatten().filter_map(|reading| reading.usage.processes).sum();
    PodStatistics {
        pod_ref: PodReference {
            name: pod.pod.full_name.name.clone(),
            namespace: pod.pod.full_name.namespace.clone(),
            uid: pod.pod.uid.to_string(),
        },
        start_time: time(pod.pod.started_at),
        cpu: cgroup.map(cpu),
        memory: cgroup.map(memory),
        io: cgroup.filter(|_| environment.is_some()).map(io),
        network: environment.and_then(|environment| {
            let time = pod.sandbox.as_ref().map_or(environment.time, |reading| reading.usage.time);
            network(pod.network.as_ref()?, time)
        }),
        volumes: files.iter().flat_map(|files| &files.volumes).map(volume).collect(),
        ephemeral_storage: environment.and_then(|environment| ephemeral(&containers, files?, environment)),
        processes: environment.map(|_| ProcessStatistics { process_count: count }),
        swap: cgroup.map(swap),
        disk_use_is_partial: files.is_some_and(|files| !files.is_complete),
        containers,
    }
}

/// Ephemeral storage of a pod: writable layers, logs, local volumes and the hosts file.
fn ephemeral(
    containers: &[ContainerStatistics],
    files: &PodFilesReading,
    environment: &EnvironmentReading,
) -> Option<FsStatistics> {
    let room = environment.node_fs?;
    let of = |fs: Option<&FsStatistics>| DiskUse {
        bytes: fs.and_then(|fs| fs.used_bytes).unwrap_or_default(),
        inodes: fs.and_then(|fs| fs.inodes_used).unwrap_or_default(),
    };
    let own = containers.iter().map(|one| of(one.rootfs.as_ref()) + of(one.logs.as_ref()));
    let volumes = files.volumes.iter().filter(|volume| volume.is_local).filter_map(|volume| volume.used);
    let used = own.chain(volumes).fold(files.others, |sum, one| sum + one);
    Some(part(room, used, environment.time))
}

fn volume(reading: &VolumeReading) -> VolumeStatistics {
    let fs = match reading.used {
        Some(used) => part(reading.room, used, reading.time),
        None => whole(reading.room, reading.time),
    };
    let health = reading.is_abnormal.map(|abnormal| VolumeHealth { abnormal });
    VolumeStatistics { fs, name: reading.name.clone(), claim: reading.claim.clone(), health }
}

fn container_of(
    name: &str,
    created_at: Timestamp,
    reading: Option<&Reading>,
    with_io: bool,
) -> ContainerStatistics {
    ContainerStatistics {
        name: name.to_owned(),
        start_time: time(created_at),
        cpu: reading.map(cpu),
        memory: reading.map(memory),
        io: reading.filter(|_| with_io).map(io),
        swap: reading.map(swap),
        ..ContainerStatistics::default()
    }
}

fn cpu(reading: &Reading) -> CpuStatistics {
    CpuStatistics {
        time: time(reading.usage.time),
        usage_nano_cores: reading.nano_cores,
        usage_core_nano_seconds: Some(reading.usage.cpu.total),
        psi: Some(reading.usage.pressure.unwrap_or_default().cpu),
    }
}

fn memory(reading: &Reading) -> MemoryStatistics {
    let memory = &reading.usage.memory;
    MemoryStatistics {
        time: time(reading.usage.time),
        available_bytes: memory.limit.map(|limit| limit.saturating_sub(memory.working_set)),
        usage_bytes: Some(memory.usage),
        working_set_bytes: Some(memory.working_set),
        rss_bytes: Some(memory.rss),
        page_faults: Some(memory.page_faults),
        major_page_faults: Some(memory.major_page_faults),
        psi: Some(reading.usage.pressure.unwrap_or_default().memory),
    }
}

fn io(reading: &Reading) -> IoStatistics {
    IoStatistics { time: time(reading.usage.time), psi: Some(reading.usage.pressure.unwrap_or_default().io) }
}

fn swap(reading: &Reading) -> SwapStatistics {
    let memory = &reading.usage.memory;
    SwapStatistics {
        time: time(reading.usage.time),
        swap_available_bytes: memory.swap_limit.map(|limit| limit.saturating_sub(memory.swap)),
        swap_usage_bytes: Some(memory.swap),
    }
}

fn network(interfaces: &[InterfaceUsage], at: Timestamp) -> Option<NetworkStatistics> {
    let shown: Vec<InterfaceStatistics> = interfaces
        .iter()
        .map(|one| InterfaceStatistics {
            name: one.name.clone(),
            rx_bytes: Some(one.received.bytes),
            rx_errors: Some(one.received.errors),
            tx_bytes: Some(one.sent.bytes),
            tx_errors: Some(one.sent.errors),
        })
        .collect();
    let default = shown.iter().find(|one| one.name == DEFAULT_INTERFACE).cloned().unwrap_or_default();
    (!shown.is_empty()).then(|| NetworkStatistics { time: time(at), default, interfaces: shown })
}

/// The use of a whole file system.
fn whole(room: FilesystemRoom, at: Timestamp) -> FsStatistics {
    let used = DiskUse { bytes: room.used, inodes: room.inodes.saturating_sub(room.inodes_free) };
    part(room, used, at)
}

/// A file system with a partial use.
fn part(room: FilesystemRoom, used: DiskUse, at: Timestamp) -> FsStatistics {
    FsStatistics {
        time: time(at),
        available_bytes: Some(room.available),
        capacity_bytes: Some(room.capacity),
        used_bytes: Some(used.bytes),
        inodes_free: Some(room.inodes_free),
        inodes: Some(room.inodes),
        inodes_used: Some(used.inodes),
    }
}

fn time(at: Timestamp) -> Option<Time> {
    (!at.is_zero()).then(|| at.to_api_time())
}
