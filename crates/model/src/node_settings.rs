use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use values::cpu_set::CpuSet;

use crate::{
    AdmissionSettings, CgroupDriver, CgroupSettings, CpuPolicy, HostCapabilities, MemoryManagerPolicy,
    NodeResources, PodLevelManagement,
};

/// Settings of the node that decisions use; fixed at start.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSettings {
    pub name: String,
    /// Node addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
    /// `--root-dir`.
    pub root_dir: PathBuf,
    /// `podLogsDir`.
    pub pod_logs_dir: PathBuf,
    /// Installed memory in bytes.
    pub memory_capacity: u64,
    pub cpu_count: usize,
    pub capabilities: HostCapabilities,
    /// `cgroupRoot`, `/` by default.
    pub cgroup_root: String,
    /// Cgroups beyond those of pods, and swap.
    pub cgroups: CgroupSettings,
    pub cgroup_driver: CgroupDriver,
    /// `cgroupsPerQOS`.
    pub cgroups_per_qos: bool,
    /// `cpuCFSQuota`.
    pub cpu_cfs_quota: bool,
    /// `cpuCFSQuotaPeriod`.
    pub cpu_cfs_quota_period: Duration,
    /// `cpuManagerPolicy`.
    pub cpu_policy: CpuPolicy,
    /// `memoryManagerPolicy`.
    pub memory_policy: MemoryManagerPolicy,
    /// CPUs of the cgroup of all pods: all that are online under the CPU policy none, so that systemd keeps the cpuset
    /// controller there; `None` leaves them unchanged.
    pub pods_cpus: Option<CpuSet>,
    /// `singleProcessOOMKill`: running out of memory ends one process, not its container.
    pub single_process_oom_kill: bool,
    /// `podPidsLimit`; none unless positive.
    pub pod_pids_limit: i64,
    /// `clusterDNS`.
    pub cluster_dns: Vec<IpAddr>,
    /// `clusterDomain`.
    pub cluster_domain: String,
    /// `resolvConf`; empty means no host DNS.
    pub resolv_conf: String,
    /// `seccompDefault` or `--seccomp-default`.
    pub seccomp_default: bool,
    pub resources: NodeResources,
    /// Which pods may run here.
    pub admission: AdmissionSettings,
    /// Gate `ContainerStopSignals`: `lifecycle.stopSignal` counts.
    pub container_stop_signals: bool,
    /// Feature gates that change what a pod gets.
    pub gates: PodGates,
}

/// Feature gates that change what a pod gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodGates {
    /// `EnvFiles`: variables from files.
    pub env_files: bool,
    /// `InPlacePodVerticalScalingExclusiveCPUs`: Guaranteed pods are resized under the static CPU policy, and keep the
    /// exclusive CPUs that they have.
    pub exclusive_cpu_resize: bool,
    /// `InPlacePodVerticalScalingExclusiveMemory`: the same for memory.
    pub exclusive_memory_resize: bool,
    /// `HostnameOverride`: a host name that stands above all others.
    pub hostname_override: bool,
    /// `ImageVolumeWithDigest`: the ids of images that are mounted are shown.
    pub image_volume_digests: bool,
    /// `InPlacePodVerticalScalingInitContainers`: init containers that run are resized.
    pub init_container_resize: bool,
    /// `PodLevelResourceManagers`: how the CPU and memory managers treat pods with pod-level resources.
    pub pod_level_management: PodLevelManagement,
    /// `InPlacePodLevelResourcesVerticalScaling`: the pod's own resources are resized and shown.
    pub pod_level_resize: bool,
    /// `TaintTolerationComparisonOperators`: tolerations with the operators `Lt` and `Gt`.
    pub numeric_tolerations: bool,
    /// `PodReadyToStartContainersCondition`: whether the sandbox is up is shown.
    pub ready_to_start_condition: bool,
    /// `ResourceHealthStatus`: the health of the devices of containers is shown.
    pub resource_health: bool,
    /// `ChangeContainerStatusOnKubeletRestart`: what probes said of a container ends with the agent.
    pub restart_forgets_probes: bool,
    /// `SELinuxMount`: volumes of all access modes are mounted with SELinux labels.
    pub selinux_mount: bool,
}

impl Default for PodGates {
    fn default() -> Self {
        Self {
            env_files: true,
            exclusive_cpu_resize: false,
            exclusive_memory_resize: false,
            hostname_override: true,
            image_volume_digests: false,
            numeric_tolerations: false,
            init_container_resize: true,
            pod_level_management: PodLevelManagement::Unmanaged,
            pod_level_resize: true,
            ready_to_start_condition: true,
            resource_health: true,
            restart_forgets_probes: false,
            selinux_mount: false,
        }
    }
}
