//! The node's own settings: name, addresses, folders, cgroups and limits.

use std::net::IpAddr;

use anyhow::Context;
use config::{Gate, LoadedConfig, parse_ip};
use model::{CgroupDriver, CgroupVersion, HostCapabilities, NodeSettings, PodGates};
use ports::host::host_facts::HostFacts;

use super::{cgroups, cpus, memory, node, registration, topology};

pub(super) fn node_settings(
    loaded: &LoadedConfig,
    host: &dyn HostFacts,
    capabilities: HostCapabilities,
    cgroup_driver: CgroupDriver,
) -> anyhow::Result<NodeSettings> {
    let config = &loaded.config;
    let name = node_name(loaded)?;
    let cgroup_root = match config.cgroups.cgroup_root.as_str() {
        "" => "/".to_owned(),
        root => root.to_owned(),
    };
    // Cgroup v1 has no group kill.
    let single_process_oom_kill = capabilities.cgroup_version == CgroupVersion::V1
        || config.cgroups.single_process_oom_kill == Some(true);
    let admission = node::admission(loaded, &name);
    Ok(NodeSettings {
        name,
        addresses: node_addresses(loaded, host)?,
        root_dir: loaded.flags.root_dir.clone(),
        pod_logs_dir: config.server.pod_logs_dir.clone().into(),
        memory_capacity: host.memory_capacity(),
        cpu_count: host.cpu_count(),
        cgroups: cgroups::cgroups(loaded, capabilities.cgroup_version),
        capabilities,
        cgroup_root,
        cgroup_driver,
        cgroups_per_qos: config.cgroups.cgroups_per_qos,
        cpu_cfs_quota: config.cgroups.cpu_cfs_quota,
        cpu_cfs_quota_period: config.cgroups.cpu_cfs_quota_period.to_std(),
        cpu_policy: cpus::cpu_policy(loaded),
        memory_policy: memory::policy_name(loaded),
        pods_cpus: cpus::pods_cpus(loaded)?,
        single_process_oom_kill,
        pod_pids_limit: config.pods.pod_pids_limit,
        cluster_dns: cluster_dns(&config.network.cluster_dns),
        cluster_domain: config.network.cluster_domain.clone(),
        resolv_conf: config.network.resolv_conf.clone(),
        seccomp_default: loaded.seccomp_default(),
        resources: node::resources(loaded, host)?,
        admission,
        container_stop_signals: loaded.gates.enabled(Gate::ContainerStopSignals),
        gates: pod_gates(loaded),
    })
}

fn pod_gates(loaded: &LoadedConfig) -> PodGates {
    PodGates {
        env_files: loaded.gates.enabled(Gate::EnvFiles),
        exclusive_cpu_resize: loaded.gates.enabled(Gate::InPlacePodVerticalScalingExclusiveCPUs),
        exclusive_memory_resize: loaded.gates.enabled(Gate::InPlacePodVerticalScalingExclusiveMemory),
        hostname_override: loaded.gates.enabled(Gate::HostnameOverride),
        image_volume_digests: loaded.gates.enabled(Gate::ImageVolumeWithDigest),
        init_container_resize: loaded.gates.enabled(Gate::InPlacePodVerticalScalingInitContainers),
        pod_level_management: topology::pod_level_management(loaded),
        pod_level_resize: loaded.gates.enabled(Gate::InPlacePodLevelResourcesVerticalScaling),
        numeric_tolerations: loaded.gates.enabled(Gate::TaintTolerationComparisonOperators),
        ready_to_start_condition: loaded.gates.enabled(Gate::PodReadyToStartContainersCondition),
        resource_health: loaded.gates.enabled(Gate::ResourceHealthStatus),
        restart_forgets_probes: loaded.gates.enabled(Gate::ChangeContainerStatusOnKubeletRestart),
        selinux_mount: loaded.gates.enabled(Gate::SELinuxMount),
    }
}

fn node_name(loaded: &LoadedConfig) -> anyhow::Result<String> {
    match &loaded.flags.hostname_override {
        Some(name) => Ok(name.trim().to_lowercase()),
        None => host::hostname().context("read the machine's host name"),
    }
}

fn node_addresses(loaded: &LoadedConfig, host: &dyn HostFacts) -> anyhow::Result<Vec<IpAddr>> {
    let requested = registration::node_ips(loaded)?;
    match requested.as_slice() {
        [] => Ok(host.addresses()),
        // The unspecified address only picks the family.
        [only] if only.is_unspecified() => {
            let (mut chosen, others): (Vec<_>, Vec<_>) =
                host.addresses().into_iter().partition(|ip| ip.is_ipv4() == only.is_ipv4());
            chosen.extend(others);
            Ok(chosen)
        }
        _ => Ok(requested),
    }
}

fn cluster_dns(entries: &[String]) -> Vec<IpAddr> {
    let parse = |entry: &String| {
        let ip = parse_ip(entry);
        if ip.is_none() {
            tracing::warn!(%entry, "clusterDNS: not an address, ignored");
        }
        ip
    };
    entries.iter().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::loaded;
    use super::*;

    #[test]
    fn ignores_invalid_parts_of_node_ip() {
        for (text, expected) in
            [("10.0.0.5,", "10.0.0.5"), ("here", ""), ("010.0.0.5, ::1", "10.0.0.5 ::1"), ("", "")]
        {
            let found = registration::node_ips(&loaded(&[&format!("--node-ip={text}")])).unwrap();
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }
}
