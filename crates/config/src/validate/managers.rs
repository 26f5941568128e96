//! Rules for the CPU, memory and topology managers, and for container logs.

use std::collections::BTreeSet;

use values::duration::GoDuration;
use values::quantity::WrittenQuantity;

use super::{Checker, field};
use crate::{
    KubeletConfiguration,
    configuration::{Managers, MemoryReservationPolicy},
    flags::parse_boolean,
    gates::Gate,
};

pub(super) fn check(checker: &mut Checker<'_>, config: &KubeletConfiguration) {
    check_policy_options(checker, &config.managers);
    check_reserved_memory(checker, &config.managers);
    check_memory_qos(checker, &config.managers);
    let logs = &config.volumes;
    checker.rule(logs.container_log_max_files > 1, "containerLogMaxFiles", "must be 2 or more");
    checker.rule(logs.container_log_max_workers >= 1, "containerLogMaxWorkers", "must be 1 or more");
    let interval = logs.container_log_monitor_interval;
    checker.rule(interval >= GoDuration::from_secs(3), "containerLogMonitorInterval", "must be at least 3s");
    if let Err(error) = logs.container_log_max_size.parse::<WrittenQuantity>() {
        checker.rule(false, "containerLogMaxSize", error.to_string());
    }
}

fn check_policy_options(checker: &mut Checker<'_>, managers: &Managers) {
    for (option, value) in &managers.cpu_manager_policy_options {
        let path = || field("cpuManagerPolicyOptions").key(option.as_str());
        let (known, gate) = match option.as_str() {
            "full-pcpus-only" | "strict-cpu-reservation" | "prefer-align-cpus-by-uncorecache" => (true, None),
            "distribute-cpus-across-numa" => (true, Some(Gate::CPUManagerPolicyBetaOptions)),
            "align-by-socket" | "distribute-cpus-across-cores" => {
                (true, Some(Gate::CPUManagerPolicyAlphaOptions))
            }
            _ => (false, None),
        };
        checker.rule_at(known, path, "unknown CPU manager policy option");
        let valid = !known || parse_boolean(value).is_ok();
        checker.rule_at(valid, path, format!("{value:?} must be true or false"));
        if let Some(gate) = gate {
            let on = checker.enabled(gate);
            checker.rule_at(on, path, format!("requires feature gate {gate:?} to be enabled"));
        }
    }
    for (option, value) in &managers.topology_manager_policy_options {
        let path = || field("topologyManagerPolicyOptions").key(option.as_str());
        match option.as_str() {
            "prefer-closest-numa-nodes" => {
                let valid = parse_boolean(value).is_ok();
                checker.rule_at(valid, path, format!("{value:?} must be true or false"));
            }
            "max-allowable-numa-nodes" => {
                let valid = value.parse::<i64>().is_ok_and(|nodes| nodes >= 8);
                checker.rule_at(valid, path, format!("{value:?} must be an integer of at least 8"));
            }
            _ => checker.rule_at(false, path, "unknown topology manager policy option"),
        }
    }
}

fn check_reserved_memory(checker: &mut Checker<'_>, managers: &Managers) {
    let mut seen = BTreeSet::new();
    for (index, reservation) in managers.reserved_memory.iter().enumerate() {
        for (kind, amount) in &reservation.limits {
            let path = || field("reservedMemory").index(index).key("limits").key(kind.as_str());
            let known = kind == "memory" || kind.starts_with("hugepages-");
            checker.rule_at(known, path, "only memory and hugepages-<size> can be reserved");
            checker.rule_at(!amount.is_zero(), path, "must not be zero");
            let first = seen.insert((reservation.numa_node, kind));
            checker.rule_at(first, path, format!("is listed twice for NUMA node {}", reservation.numa_node));
        }
    }
}

fn check_memory_qos(checker: &mut Checker<'_>, managers: &Managers) {
    const FACTOR: &str = "memoryThrottlingFactor";
    match managers.memory_throttling_factor {
        None => checker.rule(
            !checker.enabled(Gate::MemoryQoS),
            FACTOR,
            "must be set while feature gate MemoryQoS is enabled",
        ),
        Some(factor) => {
            let valid = factor > 0.0 && factor <= 1.0;
            checker.rule(valid, FACTOR, format!("{factor} must be greater than 0 and at most 1"));
        }
    }
    let tiered = managers.memory_reservation_policy == MemoryReservationPolicy::TieredReservation;
    checker.requires_gate(Gate::MemoryQoS, tiered, "memoryReservationPolicy");
}
