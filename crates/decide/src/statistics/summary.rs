//! `/stats/summary`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::statistics::{
    ClaimReference, ContainerStatistics, CpuStatistics, FsStatistics, InterfaceStatistics, IoStatistics,
    MemoryStatistics, NetworkStatistics, NodeStatistics, PodReference, PodStatistics, PressureStatistics,
    ProcessStatistics, RlimitStatistics, RuntimeStatistics, StallStatistics, Summary, SwapStatistics,
    VolumeHealth, VolumeStatistics,
};
use model::usage::{DiskUse, FilesystemRoom, InterfaceUsage, Pressure, ProcessCount, Stall, WritableLayer};
use model::{ContainerId, PodUid, Timestamp};

use super::readings::{PodReading, Reading};

/// The interface that stands for all.
const DEFAULT_INTERFACE: &str = "eth0";

/// The agent's own name among the cgroups of the system.
pub const AGENT: &str = "kubelet";

/// The node as it was read.
#[derive(Clone, Debug, Default)]
pub struct NodeReading {
    /// Its name.
    pub name: String,
    /// The whole machine.
    pub root: Option<Reading>,
    /// Cgroups of the system by their names: `kubelet`, `runtime`, `misc`, `pods`.
    pub system: Vec<(&'static str, Reading)>,
    /// When the agent was started.
    pub agent_started_at: Timestamp,
    /// When it was booted.
    pub booted_at: Option<Timestamp>,
    /// Installed memory in bytes.
    pub memory: u64,
    /// Swap in bytes.
    pub swap: u64,
}

/// Files, networks and processes as they were read; what is missing was not asked for or did not answer.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// When.
    pub time: Timestamp,
    /// The node's network.
    pub network: Vec<InterfaceUsage>,
    /// The file system of the agent's folder.
    pub node_fs: Option<FilesystemRoom>,
    /// That of images, and what they take of it.
    pub image_fs: Option<(FilesystemRoom, DiskUse)>,
    /// That of containers' own files, and what they take of it.
    pub container_fs: Option<(FilesystemRoom, DiskUse)>,
    /// Processes.
    pub processes: Option<ProcessCount>,
    /// What containers' own files take.
    pub layers: BTreeMap<ContainerId, WritableLayer>,
    /// Files of pods.
    pub files: BTreeMap<PodUid, PodFilesReading>,
}

/// Files of a pod as they were counted.
#[derive(Clone, Debug, Default)]
pub struct PodFilesReading {
    /// Logs by container.
    pub logs: BTreeMap<String, DiskUse>,
    /// The pod's hosts file, and logs that belong to no container.
    pub others: DiskUse,
    /// Its volumes.
    pub volumes: Vec<VolumeReading>,
}

/// A volume as it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeReading {
    /// Name in the pod.
    pub name: String,
    /// The claim it stands for.
    pub claim: Option<ClaimReference>,
    /// When.
    pub time: Timestamp,
    /// Its file system.
    pub room: FilesystemRoom,
    /// What it takes of it; the whole file system is its own without this.
    pub used: Option<DiskUse>,
    /// Whether something is wrong with it, from a driver that knows.
    pub is_abnormal: Option<bool>,
    /// Whether it lies on the node's own disk and goes with the pod.
    pub is_local: bool,
}

/// CPU and memory only, or with everything around.
#[must_use]
pub fn summary(node: &NodeReading, pods: &[PodReading], around: Option<&Surroundings>) -> Summary {
    Summary {
        node: node_statistics(node, around),
        pods: (pods.iter().filter(|pod| pod.pod.has_containers()))
            .map(|pod| pod_statistics(pod, around))
            .collect(),
    }
}

fn node_statistics(node: &NodeReading, around: Option<&Surroundings>) -> NodeStatistics {
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
                // A cgroup may be older than the agent in it.
                let started_at = match *name {
                    AGENT => node.agent_started_at,
                    _ => reading.usage.created_at,
                };
                container_of(name, started_at, Some(reading), around.is_some())
            })
            .collect(),
        start_time: node.booted_at.map(Timestamp::to_api_time),
        cpu: root.map(cpu),
        memory,
        io: root.filter(|_| around.is_some()).map(io),
        network: around.and_then(|around| network(&around.network, around.time)),
        fs: around.and_then(|around| around.node_fs.map(|room| whole(room, around.time))),
        runtime: around.map(|around| RuntimeStatistics {
            image_fs: around.image_fs.map(|(room, used)| part(room, used, around.time)),
            container_fs: around.container_fs.map(|(room, used)| part(room, used, around.time)),
        }),
        rlimit: around.and_then(|around| {
            let count = around.processes?;
            Some(RlimitStatistics { time: time(around.time), maxpid: count.max, curproc: count.current })
        }),
        swap,
    }
}

fn pod_statistics(pod: &PodReading, around: Option<&Surroundings>) -> PodStatistics {
    let cgroup = pod.cgroup.as_ref();
    let files = around.and_then(|around| around.files.get(&pod.pod.uid));
    let containers = pod.pod.containers.iter().zip(&pod.containers).map(|(container, reading)| {
        let shown = container_of(&container.name, container.created_at, reading.as_ref(), around.is_some());
        let Some(around) = around else { return shown };
        let layer = around.layers.get(&container.id);
        let room = around.container_fs.or(around.image_fs).map(|(room, _)| room);
        let logs = files.and_then(|files| files.logs.get(&container.name)).copied();
        ContainerStatistics {
            rootfs: room.map(|room| match layer {
                Some(layer) => part(room, layer.used, layer.time),
                None => FsStatistics { used_bytes: None, inodes_used: None, ..whole(room, around.time) },
            }),
            logs: around.node_fs.zip(logs).map(|(room, used)| part(room, used, around.time)),
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
        io: cgroup.filter(|_| around.is_some()).map(io),
        network: around.and_then(|around| {
            let time = pod.sandbox.as_ref().map_or(around.time, |reading| reading.usage.time);
            network(pod.network.as_ref()?, time)
        }),
        volumes: files.iter().flat_map(|files| &files.volumes).map(volume).collect(),
        ephemeral_storage: around.and_then(|around| ephemeral(&containers, files?, around)),
        processes: around.map(|_| ProcessStatistics { process_count: count }),
        swap: cgroup.map(swap),
        containers,
    }
}

/// What a pod takes of the node's own disk: containers' own files, logs, volumes on the disk, the hosts file.
fn ephemeral(
    containers: &[ContainerStatistics],
    files: &PodFilesReading,
    around: &Surroundings,
) -> Option<FsStatistics> {
    let room = around.node_fs?;
    let of = |fs: Option<&FsStatistics>| DiskUse {
        bytes: fs.and_then(|fs| fs.used_bytes).unwrap_or_default(),
        inodes: fs.and_then(|fs| fs.inodes_used).unwrap_or_default(),
    };
    let own = containers.iter().map(|one| of(one.rootfs.as_ref()) + of(one.logs.as_ref()));
    let volumes = files.volumes.iter().filter(|volume| volume.is_local).filter_map(|volume| volume.used);
    let used = own.chain(volumes).fold(files.others, |sum, one| sum + one);
    Some(part(room, used, around.time))
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
        psi: Some(pressure(reading.usage.pressure.unwrap_or_default().cpu)),
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
        psi: Some(pressure(reading.usage.pressure.unwrap_or_default().memory)),
    }
}

fn io(reading: &Reading) -> IoStatistics {
    IoStatistics {
        time: time(reading.usage.time),
        psi: Some(pressure(reading.usage.pressure.unwrap_or_default().io)),
    }
}

fn swap(reading: &Reading) -> SwapStatistics {
    let memory = &reading.usage.memory;
    SwapStatistics {
        time: time(reading.usage.time),
        swap_available_bytes: memory.swap_limit.map(|limit| limit.saturating_sub(memory.swap)),
        swap_usage_bytes: Some(memory.swap),
    }
}

fn pressure(pressure: Pressure) -> PressureStatistics {
    let stall = |stall: Stall| StallStatistics {
        total: stall.total,
        avg10: stall.avg10,
        avg60: stall.avg60,
        avg300: stall.avg300,
    };
    PressureStatistics { full: stall(pressure.full), some: stall(pressure.some) }
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

/// A file system of which everything that is used counts.
fn whole(room: FilesystemRoom, at: Timestamp) -> FsStatistics {
    let used = DiskUse { bytes: room.used, inodes: room.inodes.saturating_sub(room.inodes_free) };
    part(room, used, at)
}

/// A file system of which somebody uses a part.
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
