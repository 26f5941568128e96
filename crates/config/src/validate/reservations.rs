//! Rules about reserved resources and eviction.

use std::collections::{BTreeMap, BTreeSet};

use document::FieldPath;

use super::{Check, field, names::is_cpu_list};
use crate::{
    configuration::{Cgroups, Enforcement, Reservations},
    duration::GoDuration,
    gates::Gate,
    quantity::Quantity,
};

pub(super) fn check(check: &mut Check<'_>, reservations: &Reservations, cgroups: &Cgroups) {
    resources(check, "systemReserved", &reservations.system_reserved);
    resources(check, "kubeReserved", &reservations.kube_reserved);
    cpus(check, reservations);
    enforcement(check, reservations, cgroups);
    qos(check, &reservations.qos_reserved);
    eviction(check, reservations);
}

fn resources(check: &mut Check<'_>, name: &str, reserved: &BTreeMap<String, String>) {
    for (resource, amount) in reserved {
        let at = || field(name).key(resource.as_str());
        let known = matches!(resource.as_str(), "cpu" | "memory" | "ephemeral-storage" | "pid");
        check.rule_at(known, at, "only cpu, memory, ephemeral-storage and pid can be reserved");
        match amount.parse::<Quantity>() {
            Ok(amount) => check.rule_at(!amount.is_negative(), at, format!("{amount} must not be negative")),
            Err(error) => check.rule_at(false, at, error.to_string()),
        }
    }
}

fn cpus(check: &mut Check<'_>, reservations: &Reservations) {
    const FIELD: &str = "reservedSystemCPUs";
    let cpus = reservations.reserved_system_cpus.as_str();
    if cpus.is_empty() {
        return;
    }
    check.rule(is_cpu_list(cpus), FIELD, format!("{cpus:?} is not a list of CPUs such as \"0-3,8\""));
    let alone =
        reservations.system_reserved_cgroup.is_empty() && reservations.kube_reserved_cgroup.is_empty();
    check.rule(alone, FIELD, "cannot be used together with systemReservedCgroup or kubeReservedCgroup");
}

fn enforcement(check: &mut Check<'_>, reservations: &Reservations, cgroups: &Cgroups) {
    use Enforcement::{
        KubeReserved, KubeReservedCompressible, None, Pods, SystemReserved, SystemReservedCompressible,
    };
    const FIELD: &str = "enforceNodeAllocatable";
    let wanted = &reservations.enforce_node_allocatable;
    for (whole, part) in
        [(SystemReserved, SystemReservedCompressible), (KubeReserved, KubeReservedCompressible)]
    {
        let both = wanted.contains(&whole) && wanted.contains(&part);
        check.rule(!both, FIELD, "a reservation is enforced either in whole or as -compressible, not both");
    }
    let mut seen = BTreeSet::new();
    for (index, enforced) in wanted.iter().enumerate() {
        let at = || field(FIELD).index(index);
        if !seen.insert(*enforced) {
            check.rule_at(false, at, "is given twice");
            continue;
        }
        match enforced {
            None => check.rule_at(wanted.len() == 1, at, "\"none\" must stand alone"),
            Pods => {}
            SystemReserved | SystemReservedCompressible => {
                let set = !reservations.system_reserved_cgroup.is_empty();
                check.rule_at(set, at, "needs systemReservedCgroup to be set");
            }
            KubeReserved | KubeReservedCompressible => {
                let set = !reservations.kube_reserved_cgroup.is_empty();
                check.rule_at(set, at, "needs kubeReservedCgroup to be set");
            }
        }
        let grouped = *enforced == None || cgroups.cgroups_per_qos;
        check.rule_at(grouped, at, "needs cgroupsPerQOS to be true");
    }
}

fn qos(check: &mut Check<'_>, reserved: &BTreeMap<String, String>) {
    check.needs_gate(Gate::QOSReserved, !reserved.is_empty(), "qosReserved");
    for (resource, share) in reserved {
        let at = || field("qosReserved").key(resource.as_str());
        check.rule_at(resource == "memory", at, "only memory can be reserved");
        let percent = share.strip_suffix('%').and_then(|number| number.parse::<i64>().ok());
        let kept = percent.is_some_and(|percent| (0..=100).contains(&percent));
        check.rule_at(kept, at, format!("{share:?} must be a percentage from 0% to 100%"));
    }
}

/// What the node watches for shortage.
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

fn eviction(check: &mut Check<'_>, reservations: &Reservations) {
    let hard = reservations.eviction_hard.iter().flatten();
    let soft = &reservations.eviction_soft;
    for (name, (signal, value)) in
        hard.map(|e| ("evictionHard", e)).chain(soft.iter().map(|e| ("evictionSoft", e)))
    {
        let at = || field(name).key(signal.as_str());
        known_signal(check, signal, at);
        if let Err(reason) = threshold(value) {
            check.rule_at(false, at, reason);
        }
    }
    for signal in soft.keys() {
        let given = reservations.eviction_soft_grace_period.contains_key(signal);
        let at = || field("evictionSoft").key(signal.as_str());
        check.rule_at(given, at, "needs a grace period in evictionSoftGracePeriod");
    }
    for (signal, period) in &reservations.eviction_soft_grace_period {
        let at = || field("evictionSoftGracePeriod").key(signal.as_str());
        known_signal(check, signal, at);
        match period.parse::<GoDuration>() {
            Ok(period) => check.rule_at(!period.is_negative(), at, format!("{period} must not be negative")),
            Err(error) => check.rule_at(false, at, error.to_string()),
        }
    }
    for (signal, value) in &reservations.eviction_minimum_reclaim {
        let at = || field("evictionMinimumReclaim").key(signal.as_str());
        known_signal(check, signal, at);
        if let Err(reason) = minimum_reclaim(value) {
            check.rule_at(false, at, reason);
        }
    }
}

fn known_signal(check: &mut Check<'_>, signal: &str, at: impl FnOnce() -> FieldPath) {
    let reason = || format!("unknown signal; known are {}", SIGNALS.join(", "));
    let known = SIGNALS.contains(&signal);
    check.rule_at(known, at, if known { String::new() } else { reason() });
}

fn percentage(value: &str) -> Option<Result<f32, String>> {
    let number = value.strip_suffix('%')?;
    Some(number.parse::<f32>().map_err(|_| format!("{value:?} is not a percentage")))
}

/// A quantity above zero, or a percentage up to 100 of which 0% and 100% turn the threshold off.
fn threshold(value: &str) -> Result<(), String> {
    if let Some(percent) = percentage(value) {
        let kept = (0.0..=100.0).contains(&percent?);
        return if kept { Ok(()) } else { Err(format!("{value:?} must be between 0% and 100%")) };
    }
    let quantity = value.parse::<Quantity>().map_err(|error| error.to_string())?;
    if quantity.is_negative() || quantity.is_zero() {
        return Err(format!("{value:?} must be greater than zero"));
    }
    Ok(())
}

fn minimum_reclaim(value: &str) -> Result<(), String> {
    if let Some(percent) = percentage(value) {
        return if percent? > 0.0 { Ok(()) } else { Err(format!("{value:?} must be greater than 0%")) };
    }
    let quantity = value.parse::<Quantity>().map_err(|error| error.to_string())?;
    if quantity.is_negative() { Err(format!("{value:?} must not be negative")) } else { Ok(()) }
}
