//! The Node object: registration, status and lease.

use serde::{Deserialize, Serialize};

use super::{empty_is_none, is_zero, unless_set};
use crate::duration::GoDuration;

/// What the agent tells the API server about its node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Whether the agent creates its Node object.
    pub register_node: bool,
    /// Taints set when the Node object is first created.
    #[serde(skip_serializing_if = "is_zero")]
    pub register_with_taints: Vec<Taint>,
    /// How often the node status is computed.
    #[serde(default)]
    pub node_status_update_frequency: GoDuration,
    /// How often the node status is sent when nothing changed.
    #[serde(default)]
    pub node_status_report_frequency: GoDuration,
    /// Length of the node lease.
    pub node_lease_duration_seconds: i32,
    /// How many images the node status lists; -1 for all.
    pub node_status_max_images: i32,
    /// Identity of the machine at its provider.
    #[serde(rename = "providerID", skip_serializing_if = "is_zero")]
    pub provider_id: String,
    /// Pod address range, without an API server only.
    #[serde(rename = "podCIDR", skip_serializing_if = "is_zero")]
    pub pod_cidr: String,
}

/// A taint of the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key, a qualified name.
    pub key: String,
    /// Value, a label value.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub value: String,
    /// What it does to pods that do not tolerate it.
    #[serde(deserialize_with = "empty_is_none", default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// Must not be set here; the API server sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<String>,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaintEffect {
    /// New pods are not scheduled here.
    NoSchedule,
    /// New pods are scheduled elsewhere if possible.
    PreferNoSchedule,
    /// Running pods are evicted too.
    NoExecute,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            register_node: true,
            register_with_taints: Vec::new(),
            node_status_update_frequency: GoDuration::from_secs(10),
            node_status_report_frequency: GoDuration::from_secs(300),
            node_lease_duration_seconds: 40,
            node_status_max_images: 50,
            provider_id: String::new(),
            pod_cidr: String::new(),
        }
    }
}

impl Node {
    pub(super) fn complete(&mut self) {
        let default = Self::default();
        // Whoever chose a status cadence before the two were split meant it for reports too.
        let report = match self.node_status_update_frequency.is_zero() {
            true => default.node_status_report_frequency,
            false => self.node_status_update_frequency,
        };
        unless_set(&mut self.node_status_report_frequency, report);
        unless_set(&mut self.node_status_update_frequency, default.node_status_update_frequency);
        unless_set(&mut self.node_lease_duration_seconds, default.node_lease_duration_seconds);
    }
}
