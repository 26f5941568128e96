//! The answer of `/stats/summary`, field by field as the API has it (`stats/v1alpha1`).
//!
//! What was not measured is absent, never zero.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::usage::Pressure;

/// The node and its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub node: NodeStatistics,
    pub pods: Vec<PodStatistics>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatistics {
    pub node_name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system_containers: Vec<ContainerStatistics>,
    pub start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatistics>,
    /// The file system of the agent's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs: Option<FsStatistics>,
    /// File systems of the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rlimit: Option<RlimitStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStatistics>,
}

/// File systems of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStatistics {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_fs: Option<FsStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_fs: Option<FsStatistics>,
}

/// Processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RlimitStatistics {
    pub time: Option<Time>,
    /// Highest number of a process.
    pub maxpid: i64,
    pub curproc: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatistics {
    pub pod_ref: PodReference,
    /// When its sandbox was made.
    pub start_time: Option<Time>,
    pub containers: Vec<ContainerStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatistics>,
    #[serde(rename = "volume", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeStatistics>,
    /// Use of the node's local disk.
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<FsStatistics>,
    #[serde(rename = "process_stats", skip_serializing_if = "Option::is_none")]
    pub processes: Option<ProcessStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStatistics>,
    /// Whether the pod uses more local disk than these values show, because counting its files took too long. For eviction
    /// only.
    #[serde(skip)]
    pub disk_use_is_partial: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodReference {
    pub name: String,
    pub namespace: String,
    /// UID.
    pub uid: String,
}

/// Processes of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessStatistics {
    pub process_count: u64,
}

/// A container, or a cgroup of the system.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatistics {
    pub name: String,
    pub start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<IoStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<FsStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<FsStatistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStatistics>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuStatistics {
    pub time: Option<Time>,
    /// Billionths of a CPU in use, over the last window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_nano_cores: Option<u64>,
    /// CPU time so far, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_core_nano_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Pressure>,
}

/// Memory in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStatistics {
    pub time: Option<Time>,
    /// Distance to the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
    /// Without inactive page cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_faults: Option<u64>,
    /// Those that had to read from a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major_page_faults: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Pressure>,
}

/// Stalls of disks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct IoStatistics {
    pub time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Pressure>,
}

/// Swap in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SwapStatistics {
    pub time: Option<Time>,
    /// Distance to the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_usage_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkStatistics {
    pub time: Option<Time>,
    /// The interface that stands for all.
    #[serde(flatten)]
    pub default: InterfaceStatistics,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStatistics>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStatistics {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_errors: Option<u64>,
}

/// A file system, and what somebody uses of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FsStatistics {
    pub time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_used: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VolumeStatistics {
    #[serde(flatten)]
    pub fs: FsStatistics,
    pub name: String,
    /// The claim it stands for.
    #[serde(rename = "pvcRef", skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimReference>,
    /// Condition reported by the driver.
    #[serde(rename = "volumeHealthStats", skip_serializing_if = "Option::is_none")]
    pub health: Option<VolumeHealth>,
}

/// How a volume is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VolumeHealth {
    /// Whether something is wrong with it.
    pub abnormal: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ClaimReference {
    pub name: String,
    pub namespace: String,
}
