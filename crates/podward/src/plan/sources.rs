//! Where pods come from, and what static pods may use.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use config::{Gate, LoadedConfig};
use manifest::{ManifestRules, ObjectSource, RestartRules};
use values::proxies::Proxies;

use super::positive;

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
    /// Proxies from the environment of the agent.
    pub proxies: Proxies,
}

pub(super) fn file(loaded: &LoadedConfig) -> Option<FilePlan> {
    let server = &loaded.config.server;
    (!server.static_pod_path.is_empty()).then(|| FilePlan {
        path: PathBuf::from(&server.static_pod_path),
        check_frequency: positive(server.file_check_frequency.to_std()),
    })
}

pub(super) fn http(loaded: &LoadedConfig) -> Option<HttpPlan> {
    let server = &loaded.config.server;
    (!server.static_pod_url.is_empty()).then(|| HttpPlan {
        url: server.static_pod_url.clone(),
        headers: server.static_pod_url_header.clone(),
        check_frequency: positive(server.http_check_frequency.to_std()),
        proxies: Proxies::from_variables(|name| std::env::var(name).ok()),
    })
}

pub(super) fn rules(loaded: &LoadedConfig) -> ManifestRules {
    ManifestRules {
        prevent_api_references: loaded.gates.enabled(Gate::PreventStaticPodAPIReferences),
        objects: objects(loaded),
        restarts: restart_rules(loaded),
        validation_gates: validation_gates(loaded),
    }
}

fn validation_gates(loaded: &LoadedConfig) -> manifest::ValidationGates {
    let on = |gate| loaded.gates.enabled(gate);
    manifest::ValidationGates {
        strict_ip_addresses: on(Gate::StrictIPCIDRValidation),
        forbid_host_network_with_user_namespace: !on(Gate::UserNamespacesHostNetworkSupport),
        allow_merged_spread_keys: on(Gate::MatchLabelKeysInPodTopologySpread)
            && on(Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge),
        check_deletion_cost: on(Gate::PodDeletionCost),
        allow_numeric_tolerations: on(Gate::TaintTolerationComparisonOperators),
        forbid_selinux_mount_option: !on(Gate::SELinuxMount),
    }
}

fn restart_rules(loaded: &LoadedConfig) -> RestartRules {
    let on = |gate| loaded.gates.enabled(gate);
    match (on(Gate::ContainerRestartRules), on(Gate::RestartAllContainersOnContainerExits)) {
        (true, true) => RestartRules::All,
        (true, false) => RestartRules::WithoutRestartAll,
        (false, _) => RestartRules::None,
    }
}

/// Without an API server, ConfigMaps and Secrets come from the manifests.
fn objects(loaded: &LoadedConfig) -> ObjectSource {
    let has_server = loaded.flags.kubeconfig.is_some() || loaded.flags.bootstrap_kubeconfig.is_some();
    if has_server { ObjectSource::ApiServer } else { ObjectSource::Manifests }
}
