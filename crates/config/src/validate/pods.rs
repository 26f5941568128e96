//! Rules for pods and their network settings.

use values::duration::GoDuration;

use super::{
    CgroupVersion, Checker, field,
    names::{is_namespaced_sysctl, is_sysctl_pattern},
};
use crate::{
    configuration::{Network, Pods, SwapBehavior},
    gates::Gate,
};

/// User namespaces get user and group ids in blocks of this size.
const ID_BLOCK_SIZE: i64 = 65536;

pub(super) fn check(checker: &mut Checker<'_>, pods: &Pods, network: &Network) {
    checker.not_negative(pods.max_pods, "maxPods");
    checker.not_negative(pods.pods_per_core, "podsPerCore");
    checker.in_range(network.iptables_masquerade_bit, 0..=31, "iptablesMasqueradeBit");
    checker.in_range(network.iptables_drop_bit, 0..=31, "iptablesDropBit");
    for (index, pattern) in pods.allowed_unsafe_sysctls.iter().enumerate() {
        let path = || field("allowedUnsafeSysctls").index(index);
        let well_formed = is_sysctl_pattern(pattern);
        checker.rule_at(
            well_formed,
            path,
            format!("{pattern:?} is not a sysctl name or a prefix ending in *"),
        );
        let namespaced = !well_formed || is_namespaced_sysctl(pattern);
        checker.rule_at(namespaced, path, format!("{pattern:?} is not a namespaced sysctl"));
    }
    check_swap(checker, pods);
    check_user_namespaces(checker, pods);
    check_crash_loop(checker, pods);
    check_shutdown(checker, pods);
}

fn check_swap(checker: &mut Checker<'_>, pods: &Pods) {
    let behavior = pods.memory_swap.swap_behavior;
    checker.requires_gate(Gate::NodeSwap, behavior.is_some(), "memorySwap.swapBehavior");
    checker.rule(
        behavior != Some(SwapBehavior::LimitedSwap) || checker.cgroup != CgroupVersion::V1,
        "memorySwap.swapBehavior",
        "LimitedSwap requires cgroup v2",
    );
}

fn check_user_namespaces(checker: &mut Checker<'_>, pods: &Pods) {
    const FIELD: &str = "userNamespaces.idsPerPod";
    let Some(ids) = pods.user_namespaces.as_ref().and_then(|namespaces| namespaces.ids_per_pod) else {
        return;
    };
    checker.in_range(ids, ID_BLOCK_SIZE..=u32::MAX.into(), FIELD);
    checker.rule(ids % ID_BLOCK_SIZE == 0, FIELD, format!("{ids} must be a multiple of {ID_BLOCK_SIZE}"));
}

fn check_crash_loop(checker: &mut Checker<'_>, pods: &Pods) {
    const FIELD: &str = "crashLoopBackOff.maxContainerRestartPeriod";
    let gate = Gate::KubeletCrashLoopBackOffMax;
    match pods.crash_loop_back_off.max_container_restart_period {
        None => {
            checker.rule(
                !checker.enabled(gate),
                FIELD,
                format!("must be set while feature gate {gate:?} is enabled"),
            );
        }
        Some(_) if !checker.enabled(gate) => checker.requires_gate(gate, true, FIELD),
        Some(period) => {
            let range = GoDuration::from_secs(1)..=GoDuration::from_secs(300);
            checker.rule(range.contains(&period), FIELD, format!("{period} must be between 1s and 300s"));
        }
    }
}

fn check_shutdown(checker: &mut Checker<'_>, pods: &Pods) {
    const TOTAL: &str = "shutdownGracePeriod";
    const CRITICAL: &str = "shutdownGracePeriodCriticalPods";
    const BY_PRIORITY: &str = "shutdownGracePeriodByPodPriority";
    let (total, critical) = (pods.shutdown_grace_period, pods.shutdown_grace_period_critical_pods);
    for (field, period) in [(TOTAL, total), (CRITICAL, critical)] {
        let valid = period.is_zero() || period >= GoDuration::from_secs(1);
        checker.rule(valid, field, format!("{period} must be zero or at least 1s"));
        checker.requires_gate(Gate::GracefulNodeShutdown, period > GoDuration::ZERO, field);
    }
    checker.rule(
        critical <= total,
        CRITICAL,
        format!("{critical} must not be greater than {TOTAL}, which is {total}"),
    );
    let by_priority = !pods.shutdown_grace_period_by_pod_priority.is_empty();
    checker.requires_gate(Gate::GracefulNodeShutdownBasedOnPodPriority, by_priority, BY_PRIORITY);
    checker.rule(
        !by_priority || (total <= GoDuration::ZERO && critical <= GoDuration::ZERO),
        BY_PRIORITY,
        format!("cannot be used together with {TOTAL} and {CRITICAL}"),
    );
}
