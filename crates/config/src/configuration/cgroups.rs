//! Cgroups, CPU limits and the agent's process.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use values::duration::GoDuration;

use super::{default_if_zero, empty_is_default, is_zero};

/// Cgroups, CPU limits and the agent's process.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cgroups {
    /// Parent cgroup of all pods; empty for the root cgroup.
    #[serde(skip_serializing_if = "is_zero")]
    pub cgroup_root: String,
    /// Whether QoS classes and pods have their own cgroups.
    #[serde(rename = "cgroupsPerQOS")]
    #[default = true]
    pub cgroups_per_qos: bool,
    /// The driver that the container runtime reports takes precedence.
    #[serde(deserialize_with = "empty_is_default")]
    pub cgroup_driver: CgroupDriver,
    /// Cgroup of the agent; empty for the one it was started in.
    #[serde(skip_serializing_if = "is_zero")]
    pub kubelet_cgroups: String,
    /// Cgroup to move processes of the root cgroup into; empty to leave them there.
    #[serde(skip_serializing_if = "is_zero")]
    pub system_cgroups: String,
    /// Whether the CPU limits of containers are enforced.
    #[serde(rename = "cpuCFSQuota")]
    #[default = true]
    pub cpu_cfs_quota: bool,
    #[serde(rename = "cpuCFSQuotaPeriod")]
    #[default(GoDuration::from_millis(100))]
    pub cpu_cfs_quota_period: GoDuration,
    /// Whether the OOM killer kills a single process instead of the whole container. If not set, only on cgroup v1.
    #[serde(rename = "singleProcessOOMKill", skip_serializing_if = "Option::is_none")]
    pub single_process_oom_kill: Option<bool>,
    /// Whether the agent refuses to start on cgroup v1.
    #[default = true]
    pub fail_cgroup_v1: bool,
    /// The `oom_score_adj` of the agent.
    #[default(-999)]
    pub oom_score_adj: i32,
    /// Maximum number of files that the agent can open.
    #[default = 1_000_000]
    pub max_open_files: i64,
    /// Whether wrong kernel settings are an error instead of being corrected.
    #[serde(skip_serializing_if = "is_zero")]
    pub protect_kernel_defaults: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// The agent and the runtime create cgroups in the file system.
    #[default]
    Cgroupfs,
    /// systemd creates cgroups as slices and scopes.
    Systemd,
}

impl Cgroups {
    pub(super) fn apply_defaults(&mut self) {
        default_if_zero(&mut self.max_open_files, Self::default().max_open_files);
    }
}
