//! Capacity, reservations, admission settings and user IDs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use config::{Gate, LoadedConfig};
use decide::cgroups::allocatable::{impossible_reservations, threshold_amount};
use decide::runtime_spec::user_namespaces::check_pool;
use model::{AdmissionSettings, IdPool, NodeResources, PodLevelResources, ResourceAmounts};
use ports::host::host_facts::HostFacts;
use values::quantity::Amount;

use crate::plan::registration::{architecture, declared_features};

/// The node's capacity and reservations.
///
/// # Errors
/// When the reservations exceed the capacity.
pub fn resources(loaded: &LoadedConfig, host: &dyn HostFacts) -> anyhow::Result<NodeResources> {
    let reservations = &loaded.config.reservations;
    let pods = &loaded.config.pods;
    let cpus = i64::try_from(host.cpu_count()).unwrap_or(i64::MAX);
    let mut capacity = host::node_capacity(Path::new("/sys"), Path::new("/proc"), &loaded.flags.root_dir);
    if !pods.local_storage_capacity_isolation {
        capacity.remove("ephemeral-storage");
    }
    let max_pods = i64::from(pods.max_pods);
    let per_core = i64::from(pods.pods_per_core).saturating_mul(cpus);
    capacity.extend([
        ("cpu".to_owned(), cpus.saturating_mul(1000)),
        ("memory".to_owned(), i64::try_from(host.memory_capacity()).unwrap_or(i64::MAX)),
        ("pods".to_owned(), if per_core > 0 { max_pods.min(per_core) } else { max_pods }),
    ]);
    let mut kube_reserved = amounts(&reservations.kube_reserved);
    let mut system_reserved = amounts(&reservations.system_reserved);
    if !reservations.reserved_system_cpus.is_empty() {
        kube_reserved.remove("cpu");
        let reserved = &reservations.reserved_system_cpus;
        check_online(reserved, &host::online_cpus(Path::new("/sys")))?;
        let count = count_cpus(reserved);
        system_reserved.insert("cpu".to_owned(), count.saturating_mul(1000));
    }
    let eviction_hard = if loaded.flags.experimental_allocatable_ignore_eviction {
        ResourceAmounts::new()
    } else {
        hard_eviction_reserve(reservations.eviction_hard.as_ref(), &capacity)
    };
    let resources = NodeResources { capacity, kube_reserved, system_reserved, eviction_hard };
    let impossible = impossible_reservations(&resources);
    if !impossible.is_empty() {
        bail!("invalid Node Allocatable configuration. {}", impossible.join(" "));
    }
    Ok(resources)
}

#[must_use]
pub fn admission(loaded: &LoadedConfig, node_name: &str) -> AdmissionSettings {
    let gate_on = loaded.gates.enabled(Gate::PodLevelResources);
    let architecture = architecture();
    let defaults = [
        ("kubernetes.io/hostname", node_name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", architecture),
    ];
    let mut labels: BTreeMap<String, String> =
        defaults.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    labels.extend(loaded.flags.node_labels.clone());
    AdmissionSettings {
        labels,
        allowed_unsafe_sysctls: loaded.config.pods.allowed_unsafe_sysctls.clone(),
        kernel: host::kernel_version(),
        apparmor: host::apparmor(Path::new("/sys")),
        pod_level_resources: if gate_on { PodLevelResources::Allowed } else { PodLevelResources::Refused },
        declared_features: loaded
            .gates
            .enabled(Gate::NodeDeclaredFeatures)
            .then(|| declared_features(loaded)),
    }
}

/// The user and group IDs for pods with a user namespace.
///
/// # Errors
/// When the node's subordinate IDs cannot be read or are too few for `maxPods`.
pub fn id_pool(loaded: &LoadedConfig) -> anyhow::Result<IdPool> {
    let pods = &loaded.config.pods;
    let configured = pods.user_namespaces.as_ref().and_then(|namespaces| namespaces.ids_per_pod);
    let per_pod = configured.and_then(|ids| u32::try_from(ids).ok()).unwrap_or(IdPool::default().per_pod);
    let pool = host::user_id_pool(Path::new("/etc/passwd"), per_pod).context("kubelet mappings")?;
    check_pool(&pool, pods.max_pods.into())
        .map_err(|problem| anyhow::anyhow!("userNamespaces: {problem}"))?;
    Ok(pool)
}

/// Validation has already checked the quantities.
fn amounts(list: &BTreeMap<String, String>) -> ResourceAmounts {
    let amount = |name: &str, text: &str| {
        let amount = Amount::parse(text).unwrap_or_default();
        if name == "cpu" { amount.milli() } else { amount.units() }
    };
    list.iter().map(|(name, text)| (name.clone(), amount(name, text))).collect()
}

fn hard_eviction_reserve(
    thresholds: Option<&BTreeMap<String, String>>,
    capacity: &ResourceAmounts,
) -> ResourceAmounts {
    [("memory.available", "memory"), ("nodefs.available", "ephemeral-storage")]
        .into_iter()
        .filter_map(|(signal, resource)| {
            let text = thresholds?.get(signal)?;
            Some((resource.to_owned(), threshold_amount(text, *capacity.get(resource)?)))
        })
        .collect()
}

/// Counts the CPUs of a list such as `0-3,8`; duplicates count once.
pub(crate) fn count_cpus(list: &str) -> i64 {
    cpu_ranges(list).into_iter().map(|(first, last)| i64::from(last) - i64::from(first) + 1).sum()
}

fn check_online(reserved: &str, online: &str) -> anyhow::Result<()> {
    let online_ranges = cpu_ranges(online);
    let is_online =
        |(first, last): &(u32, u32)| online_ranges.iter().any(|(low, high)| low <= first && last <= high);
    if !cpu_ranges(reserved).iter().all(is_online) {
        bail!("reservedSystemCPUs: {reserved} is not a subset of the online CPUs: {online}");
    }
    Ok(())
}

/// The CPU ranges of a list, merged and sorted. Ranges are not expanded, because a list may name billions of CPUs.
fn cpu_ranges(list: &str) -> Vec<(u32, u32)> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?))
    };
    let mut found: Vec<_> = list.split(',').filter_map(range).filter(|(first, last)| first <= last).collect();
    found.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (first, last) in found {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            Some(_) | None => merged.push((first, last)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_keep_memory_and_storage_free() {
        let capacity = [("memory", 1 << 30), ("ephemeral-storage", 1000)];
        let capacity = capacity.map(|(name, amount)| (name.to_owned(), amount)).into();
        let thresholds =
            [("memory.available", "100Mi"), ("nodefs.available", "10%"), ("pid.available", "5%")];
        let thresholds = thresholds.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        let reserve = hard_eviction_reserve(Some(&thresholds), &capacity);
        assert_eq!(reserve, [("memory".to_owned(), 100 << 20), ("ephemeral-storage".to_owned(), 100)].into());
        assert_eq!(hard_eviction_reserve(None, &capacity), ResourceAmounts::new());
    }

    #[test]
    fn cpu_lists_are_counted() {
        for (list, count) in
            [("0-3,8", 5), ("5", 1), ("0-3,2", 4), ("2,0-1,1-4", 5), ("0-4294967295", 1 << 32)]
        {
            assert_eq!(count_cpus(list), count, "{list}");
        }
    }

    #[test]
    fn rejects_reserved_cpus_that_are_not_online() {
        for (reserved, online, is_fine) in [
            ("0-1", "0-3", true),
            ("0-5", "0-3,4-7", true),
            ("1,3", "0-1,3", true),
            ("100", "0-3", false),
            ("1-3", "0-1,3", false),
            ("0", "", false),
        ] {
            assert_eq!(check_online(reserved, online).is_ok(), is_fine, "{reserved} of {online}");
        }
    }
}
