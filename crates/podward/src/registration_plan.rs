//! What the node tells the API server of itself.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use agent::node::{Forbidden, Registration, Settings};
use anyhow::Context;
use config::configuration::{Taint, TaintEffect};
use config::{Gate, KUBERNETES_VERSION, Loaded, parse_ip};
use decide::node_lease::LeaseTerms;
use decide::node_status::{CloudProvider, NodeProfile, parse_node_ips};
use k8s_openapi::api::core::v1 as core;
use model::NodeResources;

/// Where device plugins leave what they gave out.
const DEVICE_CHECKPOINT: &str = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/// Features that pods may ask a node for; those of the server come with it.
const DECLARED: [(Gate, &str); 4] = [
    (Gate::ExtendWebSocketsToKubelet, "ExtendWebSocketsToKubelet"),
    (Gate::RestartAllContainersOnContainerExits, "RestartAllContainersOnContainerExits"),
    (Gate::InPlacePodLevelResourcesVerticalScaling, "InPlacePodLevelResourcesVerticalScaling"),
    (Gate::InPlacePodVerticalScalingInitContainers, "InPlacePodVerticalScalingInitContainers"),
];

/// The Node object, its status and its lease.
#[derive(Clone, Debug, Default)]
pub struct NodePlan {
    /// What is told and fixed at start.
    pub profile: NodeProfile,
    /// Timings of the status.
    pub settings: Settings,
    /// The lease.
    pub lease: LeaseTerms,
}

/// Makes the plan.
///
/// # Errors
/// When `--node-ip` makes no sense.
pub fn node(loaded: &Loaded, name: &str, resources: &NodeResources) -> anyhow::Result<NodePlan> {
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
        needs_storage: loaded.config.pods.local_storage_capacity_isolation,
        devices_are_forgotten: !Path::new(DEVICE_CHECKPOINT).exists(),
        max_images: usize::try_from(node.node_status_max_images).ok(),
        port: u16::try_from(loaded.config.server.port).unwrap_or(0),
        declared_features: declared_features(loaded),
        version: format!("{KUBERNETES_VERSION}+podward.{}", env!("CARGO_PKG_VERSION")),
    };
    let update_frequency = at_least_a_second(node.node_status_update_frequency.to_std());
    let lease_duration = u64::try_from(node.node_lease_duration_seconds).unwrap_or(1);
    Ok(NodePlan {
        profile,
        settings: Settings {
            registration: if node.register_node { Registration::Own } else { Registration::Others },
            update_frequency,
            report_frequency: node.node_status_report_frequency.to_std(),
            forbidden: if loaded.gates.enabled(Gate::KubeletRegistrationGetOnExistsOnly) {
                Forbidden::TryAgain
            } else {
                Forbidden::LookFor
            },
            deadline: update_frequency.min(at_least_a_second(Duration::from_secs(lease_duration))),
        },
        lease: LeaseTerms { node: name.to_owned(), duration_seconds: node.node_lease_duration_seconds },
    })
}

/// The machine's architecture in Go's words.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `--node-ip`; parts that are no addresses are told and left out.
///
/// # Errors
/// When the addresses are no single one and no pair of both families.
pub fn node_ips(loaded: &Loaded) -> anyhow::Result<Vec<IpAddr>> {
    let Some(text) = &loaded.flags.node_ip else { return Ok(Vec::new()) };
    // Written as everybody reads them.
    let plain = |part: &str| parse_ip(part.trim()).map_or_else(|| part.to_owned(), |ip| ip.to_string());
    let text = text.split(',').map(plain).collect::<Vec<_>>().join(",");
    let (found, wrong) = parse_node_ips(&text).map_err(anyhow::Error::msg).context("bad --node-ip")?;
    if !wrong.is_empty() {
        tracing::warn!(parts = wrong.join(", "), "--node-ip: not an address, ignored");
    }
    Ok(found)
}

/// The features that the node declares, if it declares any.
#[must_use]
pub fn declared_features(loaded: &Loaded) -> Vec<String> {
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

/// A period of zero would spin.
fn at_least_a_second(period: Duration) -> Duration {
    period.max(Duration::from_secs(1))
}
