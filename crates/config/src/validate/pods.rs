//! Rules about pods and their network settings.

use super::{
    CgroupVersion, Check, field,
    names::{is_namespaced_sysctl, is_sysctl_pattern},
};
use crate::{
    configuration::{Network, Pods, SwapBehavior},
    duration::GoDuration,
    gates::Gate,
};

/// Ids of user namespaces are handed out in pieces of this size.
const ID_UNIT: i64 = 65536;

pub(super) fn check(check: &mut Check<'_>, pods: &Pods, network: &Network) {
    check.not_negative(pods.max_pods, "maxPods");
    check.not_negative(pods.pods_per_core, "podsPerCore");
    check.rule(!pods.run_once, "runOnce", "this mode no longer exists; remove the field");
    check.in_range(network.iptables_masquerade_bit, 0..=31, "iptablesMasqueradeBit");
    check.in_range(network.iptables_drop_bit, 0..=31, "iptablesDropBit");
    for (index, pattern) in pods.allowed_unsafe_sysctls.iter().enumerate() {
        let at = || field("allowedUnsafeSysctls").index(index);
        let well_formed = is_sysctl_pattern(pattern);
        check.rule_at(well_formed, at, format!("{pattern:?} is not a sysctl name or prefix"));
        let namespaced = !well_formed || is_namespaced_sysctl(pattern);
        check.rule_at(namespaced, at, format!("{pattern:?} is not known to be namespaced"));
    }
    swap(check, pods);
    user_namespaces(check, pods);
    crash_loop(check, pods);
    shutdown(check, pods);
}

fn swap(check: &mut Check<'_>, pods: &Pods) {
    let behavior = pods.memory_swap.swap_behavior;
    check.needs_gate(Gate::NodeSwap, behavior.is_some(), "memorySwap.swapBehavior");
    check.rule(
        behavior != Some(SwapBehavior::LimitedSwap) || check.cgroup != CgroupVersion::V1,
        "memorySwap.swapBehavior",
        "LimitedSwap needs cgroup v2",
    );
}

fn user_namespaces(check: &mut Check<'_>, pods: &Pods) {
    const FIELD: &str = "userNamespaces.idsPerPod";
    let Some(ids) = pods.user_namespaces.as_ref().and_then(|namespaces| namespaces.ids_per_pod) else {
        return;
    };
    check.in_range(ids, ID_UNIT..=u32::MAX.into(), FIELD);
    check.rule(ids % ID_UNIT == 0, FIELD, format!("{ids} must be a multiple of {ID_UNIT}"));
}

fn crash_loop(check: &mut Check<'_>, pods: &Pods) {
    const FIELD: &str = "crashLoopBackOff.maxContainerRestartPeriod";
    let gate = Gate::KubeletCrashLoopBackOffMax;
    match pods.crash_loop_back_off.max_container_restart_period {
        None => {
            check.rule(!check.enabled(gate), FIELD, format!("must be set while feature gate {gate:?} is on"));
        }
        Some(_) if !check.enabled(gate) => check.needs_gate(gate, true, FIELD),
        Some(period) => {
            let range = GoDuration::from_secs(1)..=GoDuration::from_secs(300);
            check.rule(range.contains(&period), FIELD, format!("{period} must be between 1s and 300s"));
        }
    }
}

fn shutdown(check: &mut Check<'_>, pods: &Pods) {
    const TOTAL: &str = "shutdownGracePeriod";
    const CRITICAL: &str = "shutdownGracePeriodCriticalPods";
    const BY_PRIORITY: &str = "shutdownGracePeriodByPodPriority";
    let (total, critical) = (pods.shutdown_grace_period, pods.shutdown_grace_period_critical_pods);
    for (field, period) in [(TOTAL, total), (CRITICAL, critical)] {
        let kept = period.is_zero() || period >= GoDuration::from_secs(1);
        check.rule(kept, field, format!("{period} must be zero or at least 1s"));
        check.needs_gate(Gate::GracefulNodeShutdown, period > GoDuration::ZERO, field);
    }
    check.rule(
        critical <= total,
        CRITICAL,
        format!("{critical} must not be longer than {TOTAL}, which is {total}"),
    );
    let by_priority = !pods.shutdown_grace_period_by_pod_priority.is_empty();
    check.needs_gate(Gate::GracefulNodeShutdownBasedOnPodPriority, by_priority, BY_PRIORITY);
    check.rule(
        !by_priority || (total <= GoDuration::ZERO && critical <= GoDuration::ZERO),
        BY_PRIORITY,
        format!("cannot be used together with {TOTAL} and {CRITICAL}"),
    );
}
