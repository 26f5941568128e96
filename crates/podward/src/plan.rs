//! From the loaded configuration to what the wiring needs.

use values::duration::GoDuration;

mod addresses;
mod cgroups;
pub mod cluster;
mod cpus;
pub mod debugging;
mod eviction;
pub(crate) mod identity;
mod images;
mod memory;
pub mod node;
pub mod registration;
pub mod server;
mod settings;
pub mod shutdown;
pub mod sources;
mod statistics;
mod topology;
mod upkeep;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use agent::dynamic_resources::device_health::HealthMessages;
use agent::images::PullSettings;
use config::{Gate, LoadedConfig};
use decide::cgroups::system_cgroups::SystemCgroupSettings;
use decide::cpus::StaticPolicy;
use decide::images::image_access::Verification;
use decide::memory::MemoryPolicy;
use decide::pipeline::backoff::{self, CrashBackoffDecay};
use decide::resource_claims::references::ExtendedResources;
use decide::topology::Alignment;
use manifest::ManifestRules;
use model::{CgroupDriver, CredentialProvider, HostCapabilities, IdPool, NodeSettings, NumaMask};
use ports::host::host_facts::HostFacts;

pub(crate) use addresses::address;
use addresses::health_address;
use cluster::ClusterPlan;
use debugging::DebugPlan;
use registration::NodePlan;
use server::ServerPlan;
use shutdown::ShutdownPlan;
pub use sources::{FilePlan, HttpPlan};
pub use upkeep::Upkeep;

/// Everything the wiring needs besides the adapters.
#[derive(Clone, Debug)]
pub struct Plan {
    pub settings: NodeSettings,
    pub file: Option<FilePlan>,
    pub http: Option<HttpPlan>,
    pub rules: ManifestRules,
    pub sync_frequency: Duration,
    pub crash_backoff: timing::BackoffPolicy,
    /// The static CPU policy; `None` for the policy `none`.
    pub cpus: Option<StaticPolicy>,
    /// `None` with the policy `None` of the memory manager.
    pub memory: Option<MemoryPolicy>,
    /// `None` with the policy `none` of the topology manager.
    pub alignment: Option<Alignment>,
    /// The folder of the sockets of device plugins.
    pub device_plugins: PathBuf,
    /// NUMA nodes of the machine; empty if no resource is aligned to them.
    pub numa_nodes: NumaMask,
    /// `cpuManagerReconcilePeriod`.
    pub cpu_reconcile_period: Duration,
    pub pulls: PullSettings,
    /// Which cached images need credentials; `None` without `KubeletEnsureSecretPulledImages`.
    pub verification: Option<Verification>,
    pub credential_providers: Vec<CredentialProvider>,
    /// Hash of the credential provider configuration, for a metric.
    pub credential_provider_hash: Option<String>,
    /// Dead containers kept per container name.
    pub keep_dead: usize,
    pub upkeep: Upkeep,
    pub health_address: Option<SocketAddr>,
    pub read_only_address: Option<SocketAddr>,
    /// The main port; `None` when it stays closed.
    pub server: Option<ServerPlan>,
    /// `None` when `enableDebuggingHandlers` is false.
    pub debug: Option<DebugPlan>,
    /// User and group IDs for pods with a user namespace.
    pub id_pool: IdPool,
    /// Cgroups of processes that belong to no pod.
    pub system_cgroups: SystemCgroupSettings,
    pub node: NodePlan,
    pub pleg: agent::pipeline::pleg::PlegSettings,
    pub eviction: decide::eviction::EvictionSettings,
    pub statistics: agent::statistics::Settings,
    /// Which pods the pod-resources socket lists.
    pub listed: agent::node::pod_resources::ListScope,
    pub health_messages: HealthMessages,
    pub extended_resources: ExtendedResources,
    /// Gate `PodsAPI`: the agent serves pods on a socket.
    pub serves_pods: bool,
    pub shutdown: ShutdownPlan,
    /// Settings that apply only with an API server.
    pub cluster: ClusterPlan,
}

impl Plan {
    /// Adds a feature that only became known at start. Has no effect without `NodeDeclaredFeatures`.
    pub fn declare(&mut self, feature: &str) {
        if let Some(declared) = &mut self.settings.admission.declared_features {
            declared.push(feature.to_owned());
            self.node.profile.declared_features.push(feature.to_owned());
        }
    }
}

/// Resolves the configuration for this machine.
///
/// # Errors
/// When a value of the configuration cannot be used on this machine.
pub fn plan(
    loaded: &LoadedConfig,
    host: &dyn HostFacts,
    capabilities: HostCapabilities,
    cgroup_driver: CgroupDriver,
) -> anyhow::Result<Plan> {
    let server = &loaded.config.server;
    let settings = settings::node_settings(loaded, host, capabilities, cgroup_driver)?;
    let node = registration::node(loaded, &settings.name, &settings.resources)?;
    let numa_nodes = topology::numa_nodes(loaded)?;
    let cpus = cpus::static_policy(loaded, &settings.resources)?;
    let memory = memory::memory_policy(loaded, &settings.resources, &numa_nodes)?;
    Ok(Plan {
        settings,
        node,
        file: sources::file(loaded),
        http: sources::http(loaded),
        rules: sources::rules(loaded),
        sync_frequency: positive(server.sync_frequency.to_std()),
        crash_backoff: crash_backoff(loaded),
        cpus,
        memory,
        alignment: topology::alignment(loaded, &numa_nodes)?,
        device_plugins: registration::DEVICE_PLUGINS.into(),
        numa_nodes: NumaMask::of(numa_nodes.iter().map(|node| node.id)),
        cpu_reconcile_period: positive(loaded.config.managers.cpu_manager_reconcile_period.to_std()),
        pulls: images::pulls(loaded),
        verification: images::verification(loaded),
        credential_providers: images::credential_providers(loaded)?,
        credential_provider_hash: images::credential_provider_hash(loaded)?,
        keep_dead: usize::try_from(loaded.flags.maximum_dead_containers_per_container).unwrap_or(1),
        upkeep: upkeep::upkeep(loaded)?,
        health_address: health_address(&server.healthz_bind_address, server.healthz_port, host)?,
        read_only_address: address("address", &server.address, server.read_only_port)?,
        server: server::server(loaded)?,
        debug: debugging::debug_plan(loaded),
        id_pool: node::id_pool(loaded)?,
        system_cgroups: cgroups::system(loaded),
        pleg: agent::pipeline::pleg::PlegSettings {
            image_volume_digests: loaded.gates.enabled(Gate::ImageVolumeWithDigest),
            ..agent::pipeline::pleg::PlegSettings::default()
        },
        eviction: eviction::eviction(loaded),
        statistics: statistics::statistics(loaded),
        extended_resources: match loaded.gates.enabled(Gate::DRAExtendedResource) {
            true => ExtendedResources::Claimed,
            false => ExtendedResources::NotClaimed,
        },
        health_messages: match loaded.gates.enabled(Gate::ResourceHealthStatusMessage) {
            true => HealthMessages::Shown,
            false => HealthMessages::Hidden,
        },
        serves_pods: loaded.gates.enabled(Gate::PodsAPI),
        listed: match loaded.gates.enabled(Gate::KubeletPodResourcesListUseActivePods) {
            true => agent::node::pod_resources::ListScope::Active,
            false => agent::node::pod_resources::ListScope::All,
        },
        shutdown: shutdown::shutdown(loaded),
        cluster: cluster::cluster_plan(loaded),
    })
}

fn crash_backoff(loaded: &LoadedConfig) -> timing::BackoffPolicy {
    let cap = loaded.config.pods.crash_loop_back_off.max_container_restart_period;
    let decay = if loaded.gates.enabled(Gate::ReduceDefaultCrashLoopBackOffDecay) {
        CrashBackoffDecay::Reduced
    } else {
        CrashBackoffDecay::Default
    };
    backoff::crash_backoff(decay, cap.map(GoDuration::to_std))
}

/// Avoids a busy loop for a period of zero.
fn positive(period: Duration) -> Duration {
    period.max(Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn loaded(arguments: &[&str]) -> LoadedConfig {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let environment =
            config::Environment { working_directory: "/".into(), cgroup: config::CgroupVersion::V2 };
        match config::load(&arguments, &environment) {
            Ok(config::Invocation::Run(loaded)) => *loaded,
            other => panic!("{other:?}"),
        }
    }
}
