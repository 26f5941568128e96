//! Settings of the Node object, its status and its lease.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use agent::node::{NodeStatusSettings, OnForbidden, Registration};
use anyhow::Context;
use config::configuration::{Taint, TaintEffect};
use config::{Gate, KUBERNETES_VERSION, LoadedConfig, parse_ip};
use decide::devices::checkpoint::DEVICE_CHECKPOINT;
use decide::node::node_lease::LeaseSettings;
use decide::node::node_status::{CloudProvider, FaultInjection, NodeProfile, parse_node_ips};
use k8s_openapi::api::core::v1 as core;
use model::NodeResources;

use crate::version::VERSION;

/// The folder of the sockets of device plugins. It does not depend on the root folder, because plugins do not know that.
pub const DEVICE_PLUGINS: &str = "/var/lib/kubelet/device-plugins";

/// Features that pods may require of a node, by the gate that enables each.
const DECLARED: [(Gate, &str); 4] = [
    (Gate::ExtendWebSocketsToKubelet, "ExtendWebSocketsToKubelet"),
    (Gate::RestartAllContainersOnContainerExits, "RestartAllContainersOnContainerExits"),
    (Gate::InPlacePodLevelResourcesVerticalScaling, "InPlacePodLevelResourcesVerticalScaling"),
    (Gate::InPlacePodVerticalScalingInitContainers, "InPlacePodVerticalScalingInitContainers"),
];

/// The Node object, its status and its lease.
#[derive(Clone, Debug, Default)]
pub struct NodePlan {
    /// The parts of the Node object that are fixed at start.
    pub profile: NodeProfile,
    pub settings: NodeStatusSettings,
    pub lease: LeaseSettings,
}

/// Resolves the settings.
///
/// # Errors
/// When `--node-ip` is invalid.
pub fn node(loaded: &LoadedConfig, name: &str, resources: &NodeResources) -> anyhow::Result<NodePlan> {
    let (node, flags) = (&loaded.config.node, &loaded.flags);
    let cloud = match flags.cloud_provider.as_deref() {
        Some("external") => CloudProvider::External,
        Some(_) | None => CloudProvider::None,
    };
    let profile = NodeProfile {
        name: name.to_owned(),
        architecture: architecture().to_owned(),
        labels: flags.node_labels.clone(),
        taints: node.register_with_taints.iter().map(taint).collect(),
        provider_id: node.provider_id.clone(),
        cloud,
        controller_attach_detach: loaded.config.volumes.enable_controller_attach_detach,
        node_ips: node_ips(loaded)?,
        resources: resources.clone(),
        requires_ephemeral_storage: loaded.config.pods.local_storage_capacity_isolation,
        device_state_lost: !Path::new(DEVICE_PLUGINS).join(DEVICE_CHECKPOINT).exists(),
        max_images: usize::try_from(node.node_status_max_images).ok(),
        port: u16::try_from(loaded.config.server.port).unwrap_or(0),
        declared_features: declared_features(loaded),
        version: format!("{KUBERNETES_VERSION}+podward.{VERSION}"),
        fault_injection: match &flags.faults {
            Some(_) => FaultInjection::On,
            None => FaultInjection::Off,
        },
    };
    let update_frequency = at_least_a_second(node.node_status_update_frequency.to_std());
    let lease_duration = u64::try_from(node.node_lease_duration_seconds).unwrap_or(1);
    Ok(NodePlan {
        profile,
        settings: NodeStatusSettings {
            registration: if node.register_node { Registration::ByAgent } else { Registration::External },
            update_frequency,
            report_frequency: node.node_status_report_frequency.to_std(),
            on_forbidden: if loaded.gates.enabled(Gate::KubeletRegistrationGetOnExistsOnly) {
                OnForbidden::Retry
            } else {
                OnForbidden::GetExisting
            },
            request_timeout: update_frequency.min(at_least_a_second(Duration::from_secs(lease_duration))),
        },
        lease: LeaseSettings { node: name.to_owned(), duration_seconds: node.node_lease_duration_seconds },
    })
}

/// The machine's architecture as Go names it.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Parses `--node-ip`. Parts that are not addresses are logged and ignored.
///
/// # Errors
/// When the addresses are neither a single one nor a pair of both families.
pub fn node_ips(loaded: &LoadedConfig) -> anyhow::Result<Vec<IpAddr>> {
    let Some(text) = &loaded.flags.node_ip else { return Ok(Vec::new()) };
    // In canonical form: Go would reject leading zeros.
    let plain = |part: &str| parse_ip(part.trim()).map_or_else(|| part.to_owned(), |ip| ip.to_string());
    let text = text.split(',').map(plain).collect::<Vec<_>>().join(",");
    let (found, wrong) = parse_node_ips(&text).map_err(anyhow::Error::msg).context("bad --node-ip")?;
    if !wrong.is_empty() {
        tracing::warn!(parts = wrong.join(", "), "--node-ip: not an address, ignored");
    }
    Ok(found)
}

/// The declared features; empty without `NodeDeclaredFeatures`.
#[must_use]
pub fn declared_features(loaded: &LoadedConfig) -> Vec<String> {
    if !loaded.gates.enabled(Gate::NodeDeclaredFeatures) {
        return Vec::new();
    }
    let enabled = DECLARED.iter().filter(|(gate, _)| loaded.gates.enabled(*gate));
    enabled.map(|(_, name)| (*name).to_owned()).collect()
}

fn taint(taint: &Taint) -> core::Taint {
    let effect = match taint.effect {
        Some(TaintEffect::NoSchedule) => "NoSchedule",
        Some(TaintEffect::PreferNoSchedule) => "PreferNoSchedule",
        Some(TaintEffect::NoExecute) => "NoExecute",
        None => "",
    };
    core::Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: effect.to_owned(),
        time_added: None,
    }
}

/// Avoids a busy loop for a period of zero.
fn at_least_a_second(period: Duration) -> Duration {
    period.max(Duration::from_secs(1))
}
