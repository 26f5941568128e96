//! Cgroups, CPU limits and the agent's own process.

use serde::{Deserialize, Serialize};

use super::{empty_is_default, is_zero, unless_set};
use crate::duration::GoDuration;

/// Cgroups, CPU limits and the agent's own process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cgroups {
    /// Parent cgroup of all pods; empty for the root.
    #[serde(skip_serializing_if = "is_zero")]
    pub cgroup_root: String,
    /// Whether pods are grouped by quality of service.
    #[serde(rename = "cgroupsPerQOS")]
    pub cgroups_per_qos: bool,
    /// Who creates cgroups; the runtime's answer wins.
    #[serde(deserialize_with = "empty_is_default")]
    pub cgroup_driver: CgroupDriver,
    /// Cgroup of the agent; empty for the one it started in.
    #[serde(skip_serializing_if = "is_zero")]
    pub kubelet_cgroups: String,
    /// Cgroup for processes that are in none; empty to leave them.
    #[serde(skip_serializing_if = "is_zero")]
    pub system_cgroups: String,
    /// Whether CPU limits are enforced.
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: bool,
    /// Period of the CPU quota.
    #[serde(rename = "cpuCFSQuotaPeriod")]
    pub cpu_cfs_quota_period: GoDuration,
    /// Whether an out-of-memory kill ends one process instead of the container; not set means: on cgroup v1 only.
    #[serde(rename = "singleProcessOOMKill", skip_serializing_if = "Option::is_none")]
    pub single_process_oom_kill: Option<bool>,
    /// Whether the agent refuses to start on cgroup v1.
    pub fail_cgroup_v1: bool,
    /// Out-of-memory score of the agent.
    pub oom_score_adj: i32,
    /// File descriptors the agent may open.
    pub max_open_files: i64,
    /// Whether wrong kernel settings are an error instead of being set.
    #[serde(skip_serializing_if = "is_zero")]
    pub protect_kernel_defaults: bool,
}

/// Who creates cgroups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// The agent and the runtime, in the file system.
    #[default]
    Cgroupfs,
    /// systemd, as slices and scopes.
    Systemd,
}

impl Default for Cgroups {
    fn default() -> Self {
        Self {
            cgroup_root: String::new(),
            cgroups_per_qos: true,
            cgroup_driver: CgroupDriver::Cgroupfs,
            kubelet_cgroups: String::new(),
            system_cgroups: String::new(),
            cpu_cfs_quota: true,
            cpu_cfs_quota_period: GoDuration::from_millis(100),
            single_process_oom_kill: None,
            fail_cgroup_v1: true,
            oom_score_adj: -999,
            max_open_files: 1_000_000,
            protect_kernel_defaults: false,
        }
    }
}

impl Cgroups {
    pub(super) fn complete(&mut self) {
        unless_set(&mut self.max_open_files, Self::default().max_open_files);
    }
}
