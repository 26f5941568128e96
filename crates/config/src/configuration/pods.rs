//! Pod limits, restarts and shutdown.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use values::duration::GoDuration;

use super::{default_if_zero, empty_is_none, is_zero};
use crate::gates::{FeatureGates, Gate};

/// Pod limits, restarts and shutdown.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pods {
    #[default = 110]
    pub max_pods: i32,
    /// 0 for no limit per core.
    #[serde(skip_serializing_if = "is_zero")]
    pub pods_per_core: i32,
    /// Maximum number of processes per pod; -1 for no limit.
    #[default(-1)]
    pub pod_pids_limit: i64,
    /// Whether the agent refuses to start if swap is enabled.
    #[default = true]
    pub fail_swap_on: bool,
    pub memory_swap: MemorySwap,
    /// Unsafe sysctls that pods may set, by name or as a prefix with `*`.
    #[serde(skip_serializing_if = "is_zero")]
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Whether containers without a seccomp profile use `RuntimeDefault`.
    pub seccomp_default: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_namespaces: Option<UserNamespaces>,
    pub crash_loop_back_off: CrashLoopBackOff,
    /// Total time for terminating pods when the node shuts down.
    pub shutdown_grace_period: GoDuration,
    /// The part of `shutdown_grace_period` reserved for critical pods.
    pub shutdown_grace_period_critical_pods: GoDuration,
    /// Replaces the two settings above by periods per pod priority.
    #[serde(skip_serializing_if = "is_zero")]
    pub shutdown_grace_period_by_pod_priority: Vec<GracePeriodByPriority>,
    /// Removed upstream; `true` is rejected.
    #[serde(skip_serializing_if = "is_zero")]
    pub run_once: bool,
    /// Whether the use of local ephemeral storage is tracked and limited.
    #[default = true]
    pub local_storage_capacity_isolation: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemorySwap {
    /// Not set means the same as [`SwapBehavior::NoSwap`].
    #[serde(deserialize_with = "empty_is_none", skip_serializing_if = "Option::is_none")]
    pub swap_behavior: Option<SwapBehavior>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwapBehavior {
    /// No pod may use swap.
    NoSwap,
    /// Burstable pods may use swap in proportion to their memory requests.
    LimitedSwap,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserNamespaces {
    /// Number of user and group ids per pod; 65536 if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids_per_pod: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrashLoopBackOff {
    /// Maximum backoff before a restart; not set only if the feature gate is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_container_restart_period: Option<GoDuration>,
}

/// Time for terminating pods of this and higher priorities when the node shuts down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GracePeriodByPriority {
    /// The lowest priority that the period applies to.
    pub priority: i32,
    pub shutdown_grace_period_seconds: i64,
}

impl Pods {
    pub(super) fn apply_defaults(&mut self) {
        default_if_zero(&mut self.max_pods, Self::default().max_pods);
        self.pod_pids_limit = self.pod_pids_limit.max(-1);
    }

    pub(super) fn apply_gated_defaults(&mut self, gates: &FeatureGates) {
        if gates.enabled(Gate::KubeletCrashLoopBackOffMax) {
            let period = &mut self.crash_loop_back_off.max_container_restart_period;
            period.get_or_insert(GoDuration::from_secs(300));
        }
    }
}
