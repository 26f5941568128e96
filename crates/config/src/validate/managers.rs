//! Rules for the CPU, memory and topology managers, and for container logs.

use std::collections::BTreeSet;

use values::duration::GoDuration;
use values::quantity::WrittenQuantity;

use super::{Checker, field};
use crate::{
    KubeletConfiguration,
    configuration::{CpuManagerPolicy, Managers, MemoryReservationPolicy, TopologyPolicy},
    flags::parse_boolean,
    gates::Gate,
};

pub(super) fn check(checker: &mut Checker<'_>, config: &KubeletConfiguration) {
    check_cpu_policy_options(checker, &config.managers);
    check_topology_policy_options(checker, &config.managers);
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

/// The texts are upstream's.
fn check_cpu_policy_options(checker: &mut Checker<'_>, managers: &Managers) {
    const FIELD: &str = "cpuManagerPolicyOptions";
    let options = &managers.cpu_manager_policy_options;
    if managers.cpu_manager_policy == CpuManagerPolicy::None {
        let list: Vec<String> = options.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        let message = format!("None policy: received unsupported options=map[{}]", list.join(" "));
        return checker.rule(options.is_empty(), FIELD, message);
    }
    for (option, value) in options {
        let path = || field(FIELD).key(option.as_str());
        let (known, gate) = match option.as_str() {
            "full-pcpus-only" | "strict-cpu-reservation" | "prefer-align-cpus-by-uncorecache" => (true, None),
            "distribute-cpus-across-numa" => (true, Some((Gate::CPUManagerPolicyBetaOptions, "Beta"))),
            "align-by-socket" | "distribute-cpus-across-cores" => {
                (true, Some((Gate::CPUManagerPolicyAlphaOptions, "Alpha")))
            }
            _ => (false, None),
        };
        checker.rule_at(known, path, format!("unknown CPU Manager Policy option: {option:?}"));
        let valid = !known || parse_boolean(value).is_ok();
        let problem = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
        checker.rule_at(valid, path, format!("bad value for option {option:?}: {problem}"));
        if let Some((gate, stage)) = gate {
            let on = checker.enabled(gate);
            let message = format!(
                "CPU Manager Policy {stage}-level Options not enabled, but option {option:?} provided"
            );
            checker.rule_at(on, path, message);
        }
    }
    for (one, other) in [
        ("full-pcpus-only", "distribute-cpus-across-cores"),
        ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
        ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
        ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
    ] {
        let both = managers.has_cpu_option(one) && managers.has_cpu_option(other);
        let message = format!("static policy options {one} and {other} can not be used at the same time");
        checker.rule(!both, FIELD, message);
    }
}

/// The texts are upstream's. The policy `none` does not read its options.
fn check_topology_policy_options(checker: &mut Checker<'_>, managers: &Managers) {
    if managers.topology_manager_policy == TopologyPolicy::None {
        return;
    }
    for (option, value) in &managers.topology_manager_policy_options {
        let path = || field("topologyManagerPolicyOptions").key(option.as_str());
        match option.as_str() {
            "prefer-closest-numa-nodes" => {
                let valid = parse_boolean(value).is_ok();
                let problem = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
                checker.rule_at(valid, path, format!("bad value for option {option:?}: {problem}"));
            }
            "max-allowable-numa-nodes" => {
                let nodes = value.parse::<i64>();
                let problem = format!("strconv.Atoi: parsing {value:?}: invalid syntax");
                let message = format!("unable to convert policy option to integer {option:?}: {problem}");
                checker.rule_at(nodes.is_ok(), path, message);
                let message = format!("the minimum value of {option:?} should not be less than 8");
                checker.rule_at(nodes.map_or(true, |nodes| nodes >= 8), path, message);
            }
            _ => checker.rule_at(false, path, format!("unknown Topology Manager Policy option: {option:?}")),
        }
    }
}

fn check_reserved_memory(checker: &mut Checker<'_>, managers: &Managers) {
    let mut seen = BTreeSet::new();
    for (index, reservation) in managers.reserved_memory.iter().enumerate() {
        for (kind, amount) in &reservation.limits {
            let path = || field("reservedMemory").index(index).key("limits").key(kind.as_str());
            let known = kind == "memory" || kind.starts_with("hugepages-");
            let node = reservation.numa_node;
            let message = format!(
                "the limit type {kind:?} for NUMA node {node} is not supported, only [memory hugepages-<HugePageSize>] is accepted"
            );
            checker.rule_at(known, path, message);
            let message =
                format!("reserved memory may not be zero for NUMA node {node} and resource {kind:?}");
            checker.rule_at(!amount.is_zero(), path, message);
            let first = seen.insert((node, kind));
            let message = format!(
                "the reserved memory has a duplicate value for NUMA node {node} and resource {kind:?}"
            );
            checker.rule_at(first, path, message);
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
