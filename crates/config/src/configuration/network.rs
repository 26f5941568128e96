//! DNS and iptables settings.

use serde::{Deserialize, Serialize};

use super::{empty_is_default, is_zero};

/// DNS and iptables settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// Added to the DNS search list of pods; empty for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster_domain: String,
    /// DNS servers of pods that use the cluster DNS.
    #[serde(rename = "clusterDNS", skip_serializing_if = "is_zero")]
    pub cluster_dns: Vec<String>,
    /// Resolver configuration file of pods that use the DNS settings of the node; empty for none.
    pub resolv_conf: String,
    /// Has no effect.
    #[serde(deserialize_with = "empty_is_default")]
    pub hairpin_mode: HairpinMode,
    /// Whether the agent creates the iptables utility chains.
    #[serde(rename = "makeIPTablesUtilChains")]
    pub make_iptables_util_chains: bool,
    /// Has no effect.
    pub iptables_masquerade_bit: i32,
    /// Has no effect.
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

impl Default for Network {
    fn default() -> Self {
        Self {
            cluster_domain: String::new(),
            cluster_dns: Vec::new(),
            resolv_conf: "/etc/resolv.conf".to_owned(),
            hairpin_mode: HairpinMode::PromiscuousBridge,
            make_iptables_util_chains: true,
            iptables_masquerade_bit: 14,
            iptables_drop_bit: 15,
        }
    }
}

impl Network {
    #[expect(clippy::unused_self, reason = "every section has this method")]
    pub(super) fn apply_defaults(&mut self) {}
}
