//! Rules for reserved resources and eviction.

use std::collections::{BTreeMap, BTreeSet};

use document::FieldPath;
use values::duration::GoDuration;
use values::quantity::WrittenQuantity;

use super::{Checker, field, names::is_cpu_list};
use crate::{
    configuration::{Cgroups, Enforcement, Reservations},
    gates::Gate,
};

pub(super) fn check(checker: &mut Checker<'_>, reservations: &Reservations, cgroups: &Cgroups) {
    check_resources(checker, "systemReserved", &reservations.system_reserved);
    check_resources(checker, "kubeReserved", &reservations.kube_reserved);
    check_cpus(checker, reservations);
    check_enforcement(checker, reservations, cgroups);
    check_qos(checker, &reservations.qos_reserved);
    check_eviction(checker, reservations);
}

fn check_resources(checker: &mut Checker<'_>, name: &str, reserved: &BTreeMap<String, String>) {
    for (resource, amount) in reserved {
        let path = || field(name).key(resource.as_str());
        let known = matches!(resource.as_str(), "cpu" | "memory" | "ephemeral-storage" | "pid");
        checker.rule_at(known, path, "only cpu, memory, ephemeral-storage and pid can be reserved");
        match amount.parse::<WrittenQuantity>() {
            Ok(amount) => {
                checker.rule_at(!amount.is_negative(), path, format!("{amount} must not be negative"));
            }
            Err(error) => checker.rule_at(false, path, error.to_string()),
        }
    }
}

fn check_cpus(checker: &mut Checker<'_>, reservations: &Reservations) {
    const FIELD: &str = "reservedSystemCPUs";
    let cpus = reservations.reserved_system_cpus.as_str();
    if cpus.is_empty() {
        return;
    }
    checker.rule(is_cpu_list(cpus), FIELD, format!("{cpus:?} is not a list of CPUs such as \"0-3,8\""));
    let no_cgroups =
        reservations.system_reserved_cgroup.is_empty() && reservations.kube_reserved_cgroup.is_empty();
    checker.rule(
        no_cgroups,
        FIELD,
        "cannot be used together with systemReservedCgroup or kubeReservedCgroup",
    );
}

fn check_enforcement(checker: &mut Checker<'_>, reservations: &Reservations, cgroups: &Cgroups) {
    use Enforcement::{
        KubeReserved, KubeReservedCompressible, None, Pods, SystemReserved, SystemReservedCompressible,
    };
    const FIELD: &str = "enforceNodeAllocatable";
    let enforcements = &reservations.enforce_node_allocatable;
    for (full, compressible) in
        [(SystemReserved, SystemReservedCompressible), (KubeReserved, KubeReservedCompressible)]
    {
        let both = enforcements.contains(&full) && enforcements.contains(&compressible);
        checker.rule(!both, FIELD, "a reservation and its -compressible variant cannot both be enforced");
    }
    let mut seen = BTreeSet::new();
    for (index, enforced) in enforcements.iter().enumerate() {
        let path = || field(FIELD).index(index);
        if !seen.insert(*enforced) {
            checker.rule_at(false, path, "is listed twice");
            continue;
        }
        match enforced {
            None => checker.rule_at(enforcements.len() == 1, path, "\"none\" must be the only item"),
            Pods => {}
            SystemReserved | SystemReservedCompressible => {
                let set = !reservations.system_reserved_cgroup.is_empty();
                checker.rule_at(set, path, "requires systemReservedCgroup to be set");
            }
            KubeReserved | KubeReservedCompressible => {
                let set = !reservations.kube_reserved_cgroup.is_empty();
                checker.rule_at(set, path, "requires kubeReservedCgroup to be set");
            }
        }
        let grouped = *enforced == None || cgroups.cgroups_per_qos;
        checker.rule_at(grouped, path, "requires cgroupsPerQOS to be true");
    }
}

fn check_qos(checker: &mut Checker<'_>, reserved: &BTreeMap<String, String>) {
    checker.requires_gate(Gate::QOSReserved, !reserved.is_empty(), "qosReserved");
    for (resource, share) in reserved {
        let path = || field("qosReserved").key(resource.as_str());
        checker.rule_at(resource == "memory", path, "only memory can be reserved");
        let percent = share.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
        let valid = percent.is_some_and(|percent| (0..=100).contains(&percent));
        checker.rule_at(valid, path, format!("{share:?} must be a percentage from 0% to 100%"));
    }
}

/// The eviction signals.
const SIGNALS: [&str; 9] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "allocatableMemory.available",
    "pid.available",
];

fn check_eviction(checker: &mut Checker<'_>, reservations: &Reservations) {
    let hard = reservations.eviction_hard.iter().flatten();
    let soft = &reservations.eviction_soft;
    for (name, (signal, value)) in
        hard.map(|e| ("evictionHard", e)).chain(soft.iter().map(|e| ("evictionSoft", e)))
    {
        let path = || field(name).key(signal.as_str());
        check_known_signal(checker, signal, path);
        if let Err(reason) = threshold(value) {
            checker.rule_at(false, path, reason);
        }
    }
    for signal in soft.keys() {
        let has_grace_period = reservations.eviction_soft_grace_period.contains_key(signal);
        let path = || field("evictionSoft").key(signal.as_str());
        checker.rule_at(has_grace_period, path, "requires a grace period in evictionSoftGracePeriod");
    }
    for (signal, period) in &reservations.eviction_soft_grace_period {
        let path = || field("evictionSoftGracePeriod").key(signal.as_str());
        check_known_signal(checker, signal, path);
        match period.parse::<GoDuration>() {
            Ok(period) => {
                checker.rule_at(!period.is_negative(), path, format!("{period} must not be negative"));
            }
            Err(error) => checker.rule_at(false, path, error.to_string()),
        }
    }
    for (signal, value) in &reservations.eviction_minimum_reclaim {
        let path = || field("evictionMinimumReclaim").key(signal.as_str());
        check_known_signal(checker, signal, path);
        if let Err(reason) = minimum_reclaim(value) {
            checker.rule_at(false, path, reason);
        }
    }
}

fn check_known_signal(checker: &mut Checker<'_>, signal: &str, path: impl FnOnce() -> FieldPath) {
    let reason = || format!("unknown eviction signal; must be one of {}", SIGNALS.join(", "));
    let known = SIGNALS.contains(&signal);
    checker.rule_at(known, path, if known { String::new() } else { reason() });
}

fn percentage(value: &str) -> Option<Result<f32, String>> {
    let number = value.strip_suffix('%')?;
    Some(number.parse::<f32>().map_err(|_| format!("{value:?} is not a percentage")))
}

/// Accepts a quantity above zero or a percentage up to 100%. 0% and 100% disable the threshold.
fn threshold(value: &str) -> Result<(), String> {
    if let Some(percent) = percentage(value) {
        let valid = (0.0..=100.0).contains(&percent?);
        return if valid { Ok(()) } else { Err(format!("{value:?} must be between 0% and 100%")) };
    }
    let quantity = value.parse::<WrittenQuantity>().map_err(|error| error.to_string())?;
    if quantity.is_negative() || quantity.is_zero() {
        return Err(format!("{value:?} must be greater than zero"));
    }
    Ok(())
}

fn minimum_reclaim(value: &str) -> Result<(), String> {
    if let Some(percent) = percentage(value) {
        return if percent? > 0.0 { Ok(()) } else { Err(format!("{value:?} must be greater than 0%")) };
    }
    let quantity = value.parse::<WrittenQuantity>().map_err(|error| error.to_string())?;
    if quantity.is_negative() { Err(format!("{value:?} must not be negative")) } else { Ok(()) }
}
