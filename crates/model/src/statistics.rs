//! The answer of `/stats/summary`, field by field as the API has it (`stats/v1alpha1`).
//!
//! What was not measured is absent, never zero.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

/// The node and its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The node.
    pub node: NodeStatistics,
    /// Its pods.
    pub pods: Vec<PodStatistics>,
}

/// The node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatistics {
    /// Its name.
    pub node_name: String,
    /// Cgroups of the system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system_containers: Vec<ContainerStatistics>,
    /// When it was booted.
    pub start_time: Option<Time>,
    /// CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStatistics>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatistics>,
    /// Stalls of disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStatistics>,
    /// Network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatistics>,
    /// The file system of the agent's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs: Option<FsStatistics>,
    /// File systems of the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeStatistics>,
    /// Processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimit: Option<RlimitStatistics>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStatistics>,
}

/// File systems of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStatistics {
    /// Of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_fs: Option<FsStatistics>,
    /// Of containers' own files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_fs: Option<FsStatistics>,
}

/// Processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RlimitStatistics {
    /// When they were counted.
    pub time: Option<Time>,
    /// Highest number of a process.
    pub maxpid: i64,
    /// How many exist.
    pub curproc: i64,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatistics {
    /// Which one.
    pub pod_ref: PodReference,
    /// When its sandbox was made.
    pub start_time: Option<Time>,
    /// Its containers.
    pub containers: Vec<ContainerStatistics>,
    /// CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStatistics>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatistics>,
    /// Stalls of disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStatistics>,
    /// Network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatistics>,
    /// Volumes.
    #[serde(rename = "volume", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeStatistics>,
    /// What the pod takes of the node's own disk.
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<FsStatistics>,
    /// Processes.
    #[serde(rename = "process_stats", skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessStatistics>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStatistics>,
}

/// Which pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodReference {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// UID.
    pub uid: String,
}

/// Processes of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessStatistics {
    /// How many.
    pub process_count: u64,
}

/// A container, or a cgroup of the system.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatistics {
    /// Name.
    pub name: String,
    /// When it was made.
    pub start_time: Option<Time>,
    /// CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStatistics>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatistics>,
    /// Stalls of disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStatistics>,
    /// Its own files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<FsStatistics>,
    /// Its logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<FsStatistics>,
    /// Swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStatistics>,
}

/// CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuStatistics {
    /// When it was read.
    pub time: Option<Time>,
    /// Billionths of a CPU in use, over the last window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_nano_cores: Option<u64>,
    /// CPU time so far, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_core_nano_seconds: Option<u64>,
    /// Waits for a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<PressureStatistics>,
}

/// Memory in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStatistics {
    /// When it was read.
    pub time: Option<Time>,
    /// What is left below the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// All of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
    /// Without files that nobody read lately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
    /// Anonymous memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Page faults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<u64>,
    /// Those that had to read from a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major_page_faults: Option<u64>,
    /// Waits for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<PressureStatistics>,
}

/// Stalls of disks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct IoStatistics {
    /// When they were read.
    pub time: Option<Time>,
    /// Waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<PressureStatistics>,
}

/// Swap in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapStatistics {
    /// When it was read.
    pub time: Option<Time>,
    /// What is left below the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_available_bytes: Option<u64>,
    /// In use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_usage_bytes: Option<u64>,
}

/// Stalls of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PressureStatistics {
    /// All tasks waited.
    pub full: StallStatistics,
    /// Some did.
    pub some: StallStatistics,
}

/// One kind of stall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StallStatistics {
    /// Microseconds so far, as the kernel counts them.
    pub total: u64,
    /// Percentage of the last ten seconds.
    pub avg10: f64,
    /// Percentage of the last minute.
    pub avg60: f64,
    /// Percentage of the last five minutes.
    pub avg300: f64,
}

/// Network.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkStatistics {
    /// When it was read.
    pub time: Option<Time>,
    /// The interface that stands for all.
    #[serde(flatten)]
    pub default: InterfaceStatistics,
    /// All of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStatistics>,
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStatistics {
    /// Name.
    pub name: String,
    /// Bytes received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_bytes: Option<u64>,
    /// Errors while receiving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_errors: Option<u64>,
    /// Bytes sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_bytes: Option<u64>,
    /// Errors while sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_errors: Option<u64>,
}

/// A file system, and what somebody uses of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FsStatistics {
    /// When it was read.
    pub time: Option<Time>,
    /// Bytes left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Bytes used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Inodes left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    /// All inodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// Inodes used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_used: Option<u64>,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VolumeStatistics {
    /// Its file system.
    #[serde(flatten)]
    pub fs: FsStatistics,
    /// Name in the pod.
    pub name: String,
    /// The claim it stands for.
    #[serde(rename = "pvcRef", skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimReference>,
    /// What its driver says of it.
    #[serde(rename = "volumeHealthStats", skip_serializing_if = "Option::is_none")]
    pub health: Option<VolumeHealth>,
}

/// How a volume is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VolumeHealth {
    /// Whether something is wrong with it.
    pub abnormal: bool,
}

/// Which claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ClaimReference {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
}
