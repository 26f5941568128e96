//! The Node object: registration, status and lease.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use values::duration::GoDuration;

use super::{default_if_zero, empty_is_none, is_zero};

/// Registration, status and lease of the node.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Whether the agent creates the Node object.
    #[default = true]
    pub register_node: bool,
    /// Set when the Node object is created.
    #[serde(skip_serializing_if = "is_zero")]
    pub register_with_taints: Vec<Taint>,
    #[serde(default)]
    #[default(GoDuration::from_secs(10))]
    pub node_status_update_frequency: GoDuration,
    /// How often the node status is sent if it did not change.
    #[serde(default)]
    #[default(GoDuration::from_secs(300))]
    pub node_status_report_frequency: GoDuration,
    #[default = 40]
    pub node_lease_duration_seconds: i32,
    /// Maximum number of images in the node status; -1 for no limit.
    #[default = 50]
    pub node_status_max_images: i32,
    /// Identifier of the machine at its cloud provider.
    #[serde(rename = "providerID", skip_serializing_if = "is_zero")]
    pub provider_id: String,
    /// CIDR for pod IP addresses; used in standalone mode only.
    #[serde(rename = "podCIDR", skip_serializing_if = "is_zero")]
    pub pod_cidr: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// A qualified name.
    pub key: String,
    /// A label value.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub value: String,
    #[serde(deserialize_with = "empty_is_none", default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// Must not be set; the API server sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// The effect of a taint on pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Node {
    pub(super) fn apply_defaults(&mut self) {
        let default = Self::default();
        // Older configurations have only the update frequency, so it is also the default of the report frequency.
        let report = match self.node_status_update_frequency.is_zero() {
            true => default.node_status_report_frequency,
            false => self.node_status_update_frequency,
        };
        default_if_zero(&mut self.node_status_report_frequency, report);
        default_if_zero(&mut self.node_status_update_frequency, default.node_status_update_frequency);
        default_if_zero(&mut self.node_lease_duration_seconds, default.node_lease_duration_seconds);
    }
}
