//! Rules about placement, and about container logs.

use std::collections::BTreeSet;

use super::{Check, field};
use crate::{
    KubeletConfiguration,
    configuration::{Managers, MemoryReservationPolicy},
    duration::GoDuration,
    gates::Gate,
    quantity::Quantity,
};

pub(super) fn check(check: &mut Check<'_>, config: &KubeletConfiguration) {
    policy_options(check, &config.managers);
    reserved_memory(check, &config.managers);
    memory_quality(check, &config.managers);
    let logs = &config.volumes;
    check.rule(logs.container_log_max_files > 1, "containerLogMaxFiles", "must be 2 or more");
    check.rule(logs.container_log_max_workers >= 1, "containerLogMaxWorkers", "must be 1 or more");
    let interval = logs.container_log_monitor_interval;
    check.rule(interval >= GoDuration::from_secs(3), "containerLogMonitorInterval", "must be at least 3s");
    if let Err(error) = logs.container_log_max_size.parse::<Quantity>() {
        check.rule(false, "containerLogMaxSize", error.to_string());
    }
}

fn policy_options(check: &mut Check<'_>, managers: &Managers) {
    for (option, value) in &managers.cpu_manager_policy_options {
        let at = || field("cpuManagerPolicyOptions").key(option.as_str());
        let (known, gate) = match option.as_str() {
            "full-pcpus-only" | "strict-cpu-reservation" | "prefer-align-cpus-by-uncorecache" => (true, None),
            "distribute-cpus-across-numa" => (true, Some(Gate::CPUManagerPolicyBetaOptions)),
            "align-by-socket" | "distribute-cpus-across-cores" => {
                (true, Some(Gate::CPUManagerPolicyAlphaOptions))
            }
            _ => (false, None),
        };
        check.rule_at(known, at, "unknown option of the CPU policy");
        check.rule_at(!known || is_boolean(value), at, format!("{value:?} is neither true nor false"));
        if let Some(gate) = gate {
            let on = check.enabled(gate);
            check.rule_at(on, at, format!("needs feature gate {gate:?} to be on"));
        }
    }
    for (option, value) in &managers.topology_manager_policy_options {
        let at = || field("topologyManagerPolicyOptions").key(option.as_str());
        match option.as_str() {
            "prefer-closest-numa-nodes" => {
                check.rule_at(is_boolean(value), at, format!("{value:?} is neither true nor false"));
            }
            "max-allowable-numa-nodes" => {
                let kept = value.parse::<i64>().is_ok_and(|nodes| nodes >= 8);
                check.rule_at(kept, at, format!("{value:?} must be a number from 8"));
            }
            _ => check.rule_at(false, at, "unknown option of the topology policy"),
        }
    }
}

fn is_boolean(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True" | "0" | "f" | "F" | "false" | "FALSE" | "False")
}

fn reserved_memory(check: &mut Check<'_>, managers: &Managers) {
    let mut seen = BTreeSet::new();
    for (index, reservation) in managers.reserved_memory.iter().enumerate() {
        for (kind, amount) in &reservation.limits {
            let at = || field("reservedMemory").index(index).key("limits").key(kind.as_str());
            let known = kind == "memory" || kind.starts_with("hugepages-");
            check.rule_at(known, at, "only memory and hugepages-<size> can be reserved");
            check.rule_at(!amount.is_zero(), at, "must not be zero");
            let first = seen.insert((reservation.numa_node, kind));
            check.rule_at(first, at, format!("is given twice for NUMA node {}", reservation.numa_node));
        }
    }
}

fn memory_quality(check: &mut Check<'_>, managers: &Managers) {
    const FACTOR: &str = "memoryThrottlingFactor";
    match managers.memory_throttling_factor {
        None => check.rule(
            !check.enabled(Gate::MemoryQoS),
            FACTOR,
            "must be set while feature gate MemoryQoS is on",
        ),
        Some(factor) => {
            let kept = factor > 0.0 && factor <= 1.0;
            check.rule(kept, FACTOR, format!("{factor} must be greater than 0 and at most 1"));
        }
    }
    let tiered = managers.memory_reservation_policy == MemoryReservationPolicy::TieredReservation;
    check.needs_gate(Gate::MemoryQoS, tiered, "memoryReservationPolicy");
}
