//! From the loaded configuration to what the wiring needs.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use agent::images::PullSettings;
use anyhow::{Context, bail};
use config::{Gate, Loaded, parse_ip};
use decide::backoff::{Decay, Limits};
use decide::credentials::files_hash;
use decide::dead_containers::ContainerGcPolicy;
use decide::image_access::Verification;
use decide::image_gc::ImageGcPolicy;
use decide::proxies::Proxies;
use decide::system_cgroups::WantedCgroups;
use manifest::{ObjectPlace, RestartRules, Rules};
use model::{
    AnswerSharing, CgroupDriver, CgroupVersion, CredentialProvider, HostCapabilities, IdPool, NodeSettings,
    PodGates, ProviderToken,
};
use ports::host_facts::HostFacts;

use crate::cluster_plan::{ClusterPlan, cluster_plan};
use crate::debug_plan::{DebugPlan, debug_plan};
use crate::registration_plan::{self, NodePlan};
use crate::server_plan::{self, ServerPlan};
use crate::shutdown_plan::{self, ShutdownPlan};
use crate::{cgroup_plan, eviction_plan, node_plan, statistics_plan};

/// A static pod folder or file.
#[derive(Clone, Debug)]
pub struct FilePlan {
    /// `staticPodPath`.
    pub path: PathBuf,
    /// `fileCheckFrequency`.
    pub check_frequency: Duration,
}

/// A static pod URL.
#[derive(Clone, Debug)]
pub struct HttpPlan {
    /// `staticPodURL`.
    pub url: String,
    /// `staticPodURLHeader`.
    pub headers: BTreeMap<String, Vec<String>>,
    /// `httpCheckFrequency`.
    pub check_frequency: Duration,
    /// Through whom servers are reached, by the agent's environment.
    pub proxies: Proxies,
}

/// What keeps the node tidy by the clock.
#[derive(Clone, Copy, Debug)]
pub struct Upkeep {
    /// Dead containers.
    pub containers: ContainerGcPolicy,
    /// Images.
    pub images: ImageGcPolicy,
    /// Container logs.
    pub logs: agent::log_rotation::Settings,
    /// Whether chains are kept in the packet filter (`makeIPTablesUtilChains`).
    pub packet_filter: bool,
}

/// Everything the wiring needs besides the world.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Node name, folders, limits.
    pub settings: NodeSettings,
    /// Manifest files.
    pub file: Option<FilePlan>,
    /// Manifest URL.
    pub http: Option<HttpPlan>,
    /// What static pods may say.
    pub rules: Rules,
    /// `syncFrequency`.
    pub sync_frequency: Duration,
    /// Crash back-off.
    pub crash_limits: Limits,
    /// Bounds of pulls.
    pub pulls: PullSettings,
    /// Which images need credentials though they are there; `None` when that is switched off.
    pub verification: Option<Verification>,
    /// Programs that know credentials.
    pub credential_providers: Vec<CredentialProvider>,
    /// The hash of the files that describe them.
    pub credential_provider_hash: Option<String>,
    /// Dead containers kept per name.
    pub keep_dead: usize,
    /// Collectors and log rotation.
    pub upkeep: Upkeep,
    /// Local health check.
    pub health_address: Option<SocketAddr>,
    /// Read-only port.
    pub read_only_address: Option<SocketAddr>,
    /// Main port; `None` when the node has none.
    pub server: Option<ServerPlan>,
    /// What looks into pods; `None` when that is switched off.
    pub debug: Option<DebugPlan>,
    /// Ids of pods with users of their own.
    pub id_pool: IdPool,
    /// Where processes that belong to no pod should be.
    pub system_cgroups: WantedCgroups,
    /// What the node tells the API server of itself.
    pub node: NodePlan,
    /// Timings of the lifecycle event generator.
    pub pleg: agent::pleg::Settings,
    /// What is done when the node runs short.
    pub eviction: decide::eviction::Settings,
    /// Statistics.
    pub statistics: agent::statistics::Settings,
    /// Which pods the pod-resources socket lists.
    pub listed: agent::pod_resources::Listed,
    /// How pods end with the machine.
    pub shutdown: ShutdownPlan,
    /// What counts only with an API server.
    pub cluster: ClusterPlan,
}

impl Plan {
    /// Declares a feature of the node that nobody knew of before, where features are declared at all.
    pub fn declare(&mut self, feature: &str) {
        if let Some(declared) = &mut self.settings.admission.declared_features {
            declared.push(feature.to_owned());
            self.node.profile.declared_features.push(feature.to_owned());
        }
    }
}

/// Makes the plan.
///
/// # Errors
/// When a value of the configuration cannot be used on this machine.
pub fn plan(
    loaded: &Loaded,
    host: &dyn HostFacts,
    capabilities: HostCapabilities,
    cgroup_driver: CgroupDriver,
) -> anyhow::Result<Plan> {
    let config = &loaded.config;
    let server = &config.server;
    let name = node_name(loaded)?;
    let (addresses, cluster_dns) = (node_addresses(loaded, host)?, cluster_dns(&config.network.cluster_dns));
    let cgroup_root = match config.cgroups.cgroup_root.as_str() {
        "" => "/".to_owned(),
        root => root.to_owned(),
    };
    // Cgroup v1 cannot do otherwise.
    let single_process_oom_kill = capabilities.cgroup_version == CgroupVersion::V1
        || config.cgroups.single_process_oom_kill == Some(true);
    let admission = node_plan::admission(loaded, &name);
    let settings = NodeSettings {
        name,
        addresses,
        root_dir: loaded.flags.root_dir.clone(),
        pod_logs_dir: server.pod_logs_dir.clone().into(),
        memory_capacity: host.memory_capacity(),
        cpu_count: host.cpu_count(),
        cgroups: cgroup_plan::cgroups(loaded),
        capabilities,
        cgroup_root,
        cgroup_driver,
        cgroups_per_qos: config.cgroups.cgroups_per_qos,
        cpu_cfs_quota: config.cgroups.cpu_cfs_quota,
        cpu_cfs_quota_period: config.cgroups.cpu_cfs_quota_period.to_std(),
        single_process_oom_kill,
        pod_pids_limit: config.pods.pod_pids_limit,
        cluster_dns,
        cluster_domain: config.network.cluster_domain.clone(),
        resolv_conf: config.network.resolv_conf.clone(),
        seccomp_default: loaded.seccomp_default(),
        resources: node_plan::resources(loaded, host)?,
        admission,
        container_stop_signals: loaded.gates.enabled(Gate::ContainerStopSignals),
        gates: PodGates {
            env_files: loaded.gates.enabled(Gate::EnvFiles),
            hostname_override: loaded.gates.enabled(Gate::HostnameOverride),
            image_volume_digests: loaded.gates.enabled(Gate::ImageVolumeWithDigest),
            init_container_resize: loaded.gates.enabled(Gate::InPlacePodVerticalScalingInitContainers),
            pod_level_resize: loaded.gates.enabled(Gate::InPlacePodLevelResourcesVerticalScaling),
            ready_to_start_condition: loaded.gates.enabled(Gate::PodReadyToStartContainersCondition),
            restart_forgets_probes: loaded.gates.enabled(Gate::ChangeContainerStatusOnKubeletRestart),
            selinux_mount: loaded.gates.enabled(Gate::SELinuxMount),
        },
    };
    let file = (!server.static_pod_path.is_empty()).then(|| FilePlan {
        path: PathBuf::from(&server.static_pod_path),
        check_frequency: positive(server.file_check_frequency.to_std()),
    });
    let http = (!server.static_pod_url.is_empty()).then(|| HttpPlan {
        url: server.static_pod_url.clone(),
        headers: server.static_pod_url_header.clone(),
        check_frequency: positive(server.http_check_frequency.to_std()),
        proxies: Proxies::of(|name| std::env::var(name).ok()),
    });
    let rules = Rules {
        prevent_api_references: loaded.gates.enabled(Gate::PreventStaticPodAPIReferences),
        objects: objects(loaded),
        restarts: restart_rules(loaded),
        strictness: strictness(loaded),
    };
    let crash_cap = config.pods.crash_loop_back_off.max_container_restart_period;
    let decay = if loaded.gates.enabled(Gate::ReduceDefaultCrashLoopBackOffDecay) {
        Decay::Reduced
    } else {
        Decay::Usual
    };
    let at_once = if config.images.pulls_one_at_a_time() {
        Some(1)
    } else {
        config.images.max_parallel_image_pulls.and_then(|count| usize::try_from(count).ok())
    };
    let node = registration_plan::node(loaded, &settings.name, &settings.resources)?;
    Ok(Plan {
        settings,
        node,
        file,
        http,
        rules,
        sync_frequency: positive(server.sync_frequency.to_std()),
        crash_limits: Limits::of_crashes(decay, crash_cap.map(config::GoDuration::to_std)),
        pulls: PullSettings {
            at_once,
            per_second: u32::try_from(config.images.registry_pull_qps).unwrap_or(0),
            burst: u32::try_from(config.images.registry_burst).unwrap_or(0),
            by_handler: loaded.gates.enabled(Gate::RuntimeClassInImageCriApi),
        },
        verification: verification(loaded),
        credential_providers: credential_providers(loaded)?,
        credential_provider_hash: credential_provider_hash(loaded)?,
        keep_dead: usize::try_from(loaded.flags.maximum_dead_containers_per_container).unwrap_or(1),
        upkeep: upkeep(loaded)?,
        health_address: health_address(&server.healthz_bind_address, server.healthz_port, host)?,
        read_only_address: address("address", &server.address, server.read_only_port)?,
        server: server_plan::server(loaded)?,
        debug: debug_plan(loaded),
        id_pool: node_plan::id_pool(loaded)?,
        system_cgroups: cgroup_plan::system(loaded),
        pleg: agent::pleg::Settings {
            image_volume_digests: loaded.gates.enabled(Gate::ImageVolumeWithDigest),
            ..agent::pleg::Settings::default()
        },
        eviction: eviction_plan::eviction(loaded),
        statistics: statistics_plan::statistics(loaded),
        listed: match loaded.gates.enabled(Gate::KubeletPodResourcesListUseActivePods) {
            true => agent::pod_resources::Listed::Active,
            false => agent::pod_resources::Listed::All,
        },
        shutdown: shutdown_plan::shutdown(loaded),
        cluster: cluster_plan(loaded),
    })
}

fn upkeep(loaded: &Loaded) -> anyhow::Result<Upkeep> {
    let (images, logs, flags) = (&loaded.config.images, &loaded.config.volumes, &loaded.flags);
    let percent = |value: i32| u64::try_from(value).unwrap_or(0);
    // A negative number means no limit.
    let limit = |count: i32| usize::try_from(count).ok();
    let max_size: config::Quantity = logs.container_log_max_size.parse().map_err(|_| {
        anyhow::anyhow!("containerLogMaxSize: {:?} is no quantity", logs.container_log_max_size)
    })?;
    Ok(Upkeep {
        containers: ContainerGcPolicy {
            per_container: limit(flags.maximum_dead_containers_per_container),
            total: limit(flags.maximum_dead_containers),
            min_age: flags.minimum_container_ttl_duration.to_std(),
        },
        images: ImageGcPolicy {
            high_percent: percent(images.image_gc_high_threshold_percent),
            low_percent: percent(images.image_gc_low_threshold_percent),
            min_age: images.image_minimum_gc_age.to_std(),
            max_age: images.image_maximum_gc_age.to_std(),
            by_handler: loaded.gates.enabled(Gate::RuntimeClassInImageCriApi),
        },
        logs: agent::log_rotation::Settings {
            max_size: max_size.value().and_then(|bytes| u64::try_from(bytes).ok()),
            max_files: usize::try_from(logs.container_log_max_files).unwrap_or(2),
            workers: usize::try_from(logs.container_log_max_workers).unwrap_or(1),
            interval: positive(logs.container_log_monitor_interval.to_std()),
        },
        packet_filter: loaded.config.network.make_iptables_util_chains,
    })
}

fn strictness(loaded: &Loaded) -> manifest::Strictness {
    let on = |gate| loaded.gates.enabled(gate);
    manifest::Strictness {
        plain_addresses: on(Gate::StrictIPCIDRValidation),
        own_users_own_network: !on(Gate::UserNamespacesHostNetworkSupport),
        merged_spread_keys: on(Gate::MatchLabelKeysInPodTopologySpread)
            && on(Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge),
        numeric_deletion_cost: on(Gate::PodDeletionCost),
        no_label_mounts: !on(Gate::SELinuxMount),
    }
}

fn restart_rules(loaded: &Loaded) -> RestartRules {
    let on = |gate| loaded.gates.enabled(gate);
    match (on(Gate::ContainerRestartRules), on(Gate::RestartAllContainersOnContainerExits)) {
        (true, true) => RestartRules::All,
        (true, false) => RestartRules::WithoutRestartAll,
        (false, _) => RestartRules::None,
    }
}

fn verification(loaded: &Loaded) -> Option<Verification> {
    use config::configuration::CredentialsVerification as Policy;
    if !loaded.gates.enabled(Gate::KubeletEnsureSecretPulledImages) {
        return None;
    }
    let images = &loaded.config.images;
    Some(match images.credentials_verification {
        Some(Policy::NeverVerify) => Verification::Never,
        None | Some(Policy::NeverVerifyPreloadedImages) => Verification::UnlessPreloaded,
        Some(Policy::NeverVerifyAllowlistedImages) => {
            Verification::UnlessListed(images.preloaded_images_verification_allowlist.clone())
        }
        Some(Policy::AlwaysVerify) => Verification::Always,
    })
}

/// The credential provider programs; a program that is not there is found now, not at the first pull.
fn credential_providers(loaded: &Loaded) -> anyhow::Result<Vec<CredentialProvider>> {
    let flags = &loaded.flags;
    let (path, programs) =
        match (&flags.image_credential_provider_config, &flags.image_credential_provider_bin_dir) {
            (None, None) => return Ok(Vec::new()),
            (Some(path), Some(programs)) => (path, programs),
            // One alone is a slip: images would be pulled without credentials, and fail much later.
            (None, Some(_)) => {
                bail!("--image-credential-provider-bin-dir needs --image-credential-provider-config")
            }
            (Some(_), None) => {
                bail!("--image-credential-provider-config needs --image-credential-provider-bin-dir")
            }
        };
    let metadata = std::fs::metadata(programs);
    metadata.with_context(|| format!("--image-credential-provider-bin-dir: {}", programs.display()))?;
    let providers = config::credential_providers(path, &loaded.gates).map_err(|error| {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        anyhow::anyhow!("--image-credential-provider-config: {error}{}", source.unwrap_or_default())
    })?;
    let provider = |settings: config::CredentialProviderSettings| {
        let program = programs.join(&settings.name);
        host::check_program(&program)
            .with_context(|| format!("credential provider {}: {}", settings.name, program.display()))?;
        Ok(CredentialProvider {
            name: settings.name,
            match_images: settings.match_images,
            default_cache_duration: settings.default_cache_duration.to_std(),
            api_version: settings.api_version,
            args: settings.args,
            env: settings.env,
            token: settings.token.map(provider_token),
        })
    };
    providers.into_iter().map(provider).collect()
}

fn credential_provider_hash(loaded: &Loaded) -> anyhow::Result<Option<String>> {
    let flags = &loaded.flags;
    let Some(path) = flags
        .image_credential_provider_config
        .as_ref()
        .filter(|_| flags.image_credential_provider_bin_dir.is_some())
    else {
        return Ok(None);
    };
    let files = config::credential_provider_files(path).context("--image-credential-provider-config")?;
    Ok(Some(files_hash(&files)))
}

fn provider_token(settings: config::ProviderTokenSettings) -> ProviderToken {
    ProviderToken {
        audience: settings.audience,
        requires_account: settings.requires_account,
        required_annotations: settings.required_annotations,
        optional_annotations: settings.optional_annotations,
        shared: if settings.answers_one_token { AnswerSharing::Token } else { AnswerSharing::Account },
    }
}

/// A period of zero would spin.
fn positive(period: Duration) -> Duration {
    period.max(Duration::from_millis(100))
}

fn node_name(loaded: &Loaded) -> anyhow::Result<String> {
    match &loaded.flags.hostname_override {
        Some(name) => Ok(name.trim().to_lowercase()),
        None => host::hostname().context("read the machine's host name"),
    }
}

fn node_addresses(loaded: &Loaded, host: &dyn HostFacts) -> anyhow::Result<Vec<IpAddr>> {
    let asked = registration_plan::node_ips(loaded)?;
    match asked.as_slice() {
        [] => Ok(host.addresses()),
        // The unspecified address only picks the family.
        [only] if only.is_unspecified() => {
            let (mut chosen, others): (Vec<_>, Vec<_>) =
                host.addresses().into_iter().partition(|ip| ip.is_ipv4() == only.is_ipv4());
            chosen.extend(others);
            Ok(chosen)
        }
        _ => Ok(asked),
    }
}

/// Without an API server, ConfigMaps and Secrets come from the manifests.
fn objects(loaded: &Loaded) -> ObjectPlace {
    let has_server = loaded.flags.kubeconfig.is_some() || loaded.flags.bootstrap_kubeconfig.is_some();
    if has_server { ObjectPlace::ApiServer } else { ObjectPlace::Manifests }
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

pub(crate) fn address(field: &str, text: &str, port: i32) -> anyhow::Result<Option<SocketAddr>> {
    let port = u16::try_from(port).with_context(|| format!("{field}: port {port} is out of range"))?;
    if port == 0 {
        return Ok(None);
    }
    let ip = parse_ip(text).with_context(|| format!("{field}: {text:?} is not an address"))?;
    Ok(Some(SocketAddr::new(ip, port)))
}

/// The one address that a name may stand for. The port is a convenience: what cannot be found is told, no more.
fn health_address(text: &str, port: i32, host: &dyn HostFacts) -> anyhow::Result<Option<SocketAddr>> {
    if port == 0 || parse_ip(text).is_some() {
        return address("healthzBindAddress", text, port);
    }
    let Some(ip) = host.look_up(text).first().copied() else {
        tracing::error!(
            name = text,
            "healthzBindAddress: no such address, the health check port stays closed"
        );
        return Ok(None);
    };
    address("healthzBindAddress", &ip.to_string(), port)
}

#[cfg(test)]
mod tests {
    use host::MachineFacts;

    use super::*;

    fn loaded(arguments: &[&str]) -> Loaded {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let environment =
            config::Environment { working_directory: "/".into(), cgroup: config::CgroupVersion::V2 };
        match config::load(&arguments, &environment) {
            Ok(config::Invocation::Run(loaded)) => *loaded,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_flag_of_credential_providers_alone_is_refused() {
        for (one, other) in [("config", "bin-dir"), ("bin-dir", "config")] {
            let loaded = loaded(&[&format!("--image-credential-provider-{one}=/nowhere")]);
            let error = credential_providers(&loaded).unwrap_err().to_string();
            assert!(error.ends_with(&format!("needs --image-credential-provider-{other}")), "{error}");
        }
        assert!(credential_providers(&loaded(&[])).unwrap().is_empty());
    }

    #[test]
    fn the_health_check_may_be_bound_to_a_name() {
        let host = MachineFacts::default();
        let at = |text: &str, port| health_address(text, port, &host).unwrap();
        assert!(at("localhost", 10248).is_some_and(|address| address.ip().is_loopback()));
        assert_eq!(at("127.0.0.01", 10248), Some(SocketAddr::from(([127, 0, 0, 1], 10248))));
        // Too long for a name, so nobody is asked for it.
        let unknown = "a".repeat(300);
        assert_eq!((at(&unknown, 10248), at(&unknown, 0)), (None, None));
        assert!(health_address("127.0.0.1", 70000, &host).is_err());
    }

    #[test]
    fn parts_of_the_node_ip_that_are_no_addresses_are_left_out() {
        for (text, expected) in
            [("10.0.0.5,", "10.0.0.5"), ("here", ""), ("010.0.0.5, ::1", "10.0.0.5 ::1"), ("", "")]
        {
            let found = registration_plan::node_ips(&loaded(&[&format!("--node-ip={text}")])).unwrap();
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }
}
