//! DNS and iptables settings.

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::{empty_is_default, is_zero};

/// DNS and iptables settings.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// Added to the DNS search list of pods; empty for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster_domain: String,
    /// DNS servers of pods that use the cluster DNS.
    #[serde(rename = "clusterDNS", skip_serializing_if = "is_zero")]
    pub cluster_dns: Vec<String>,
    /// Resolver configuration file of pods that use the DNS settings of the node; empty for none.
    #[default = "/etc/resolv.conf"]
    pub resolv_conf: String,
    /// Has no effect.
    #[serde(deserialize_with = "empty_is_default")]
    pub hairpin_mode: HairpinMode,
    /// Whether the agent creates the iptables utility chains.
    #[serde(rename = "makeIPTablesUtilChains")]
    #[default = true]
    pub make_iptables_util_chains: bool,
    /// Has no effect.
    #[default = 14]
    pub iptables_masquerade_bit: i32,
    /// Has no effect.
    #[default = 15]
    pub iptables_drop_bit: i32,
}

/// How pods reach themselves through a Service. Has no effect, neither here nor upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HairpinMode {
    #[default]
    PromiscuousBridge,
    HairpinVeth,
    None,
}

impl Network {
    #[expect(clippy::unused_self, reason = "every section has this method")]
    pub(super) fn apply_defaults(&mut self) {}
}
