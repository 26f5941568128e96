//! Limits and habits of pods: how many, how they restart, how they end.

use serde::{Deserialize, Serialize};

use super::{empty_is_none, is_zero, unless_set};
use crate::{
    duration::GoDuration,
    gates::{FeatureGates, Gate},
};

/// Limits and habits of pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pods {
    /// How many pods the node takes.
    pub max_pods: i32,
    /// How many pods the node takes per core; 0 for no such limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub pods_per_core: i32,
    /// Processes per pod; -1 for no limit.
    pub pod_pids_limit: i64,
    /// Whether the agent refuses to start while swap is on.
    pub fail_swap_on: bool,
    /// How pods may use swap.
    pub memory_swap: MemorySwap,
    /// Sysctls pods may set at their own risk, by name or prefix with `*`.
    #[serde(skip_serializing_if = "is_zero")]
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Whether containers without a seccomp profile get the runtime's.
    pub seccomp_default: bool,
    /// Ids of pods with a user namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_namespaces: Option<UserNamespaces>,
    /// How long crashing containers wait.
    pub crash_loop_back_off: CrashLoopBackOff,
    /// Time pods have to end when the node shuts down.
    pub shutdown_grace_period: GoDuration,
    /// The part of it kept for critical pods.
    pub shutdown_grace_period_critical_pods: GoDuration,
    /// The same by pod priority.
    #[serde(skip_serializing_if = "is_zero")]
    pub shutdown_grace_period_by_pod_priority: Vec<GracePeriodByPriority>,
    /// Removed upstream; true is refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub run_once: bool,
    /// Whether local ephemeral storage is counted and limited.
    pub local_storage_capacity_isolation: bool,
}

/// How pods may use swap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemorySwap {
    /// Who may swap; not set means nobody.
    #[serde(deserialize_with = "empty_is_none", skip_serializing_if = "Option::is_none")]
    pub swap_behavior: Option<SwapBehavior>,
}

/// Who may swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwapBehavior {
    /// Nobody.
    NoSwap,
    /// Burstable pods, in proportion to their memory requests.
    LimitedSwap,
}

/// Ids of pods with a user namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserNamespaces {
    /// How many ids each pod gets; 65536 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids_per_pod: Option<i64>,
}

/// How long crashing containers wait.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrashLoopBackOff {
    /// Longest wait before a restart; not set only when its gate is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_container_restart_period: Option<GoDuration>,
}

/// Time pods of a priority and above have to end when the node shuts down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GracePeriodByPriority {
    /// Lowest priority it is for.
    pub priority: i32,
    /// The time.
    pub shutdown_grace_period_seconds: i64,
}

impl Default for Pods {
    fn default() -> Self {
        Self {
            max_pods: 110,
            pods_per_core: 0,
            pod_pids_limit: -1,
            fail_swap_on: true,
            memory_swap: MemorySwap::default(),
            allowed_unsafe_sysctls: Vec::new(),
            seccomp_default: false,
            user_namespaces: None,
            crash_loop_back_off: CrashLoopBackOff::default(),
            shutdown_grace_period: GoDuration::ZERO,
            shutdown_grace_period_critical_pods: GoDuration::ZERO,
            shutdown_grace_period_by_pod_priority: Vec::new(),
            run_once: false,
            local_storage_capacity_isolation: true,
        }
    }
}

impl Pods {
    pub(super) fn complete(&mut self) {
        unless_set(&mut self.max_pods, Self::default().max_pods);
        self.pod_pids_limit = self.pod_pids_limit.max(-1);
    }

    pub(super) fn complete_gated(&mut self, gates: &FeatureGates) {
        if gates.enabled(Gate::KubeletCrashLoopBackOffMax) {
            let period = &mut self.crash_loop_back_off.max_container_restart_period;
            period.get_or_insert(GoDuration::from_secs(300));
        }
    }
}
