//! DNS and packet filter settings.

use serde::{Deserialize, Serialize};

use super::{empty_is_default, is_zero};

/// DNS and packet filter settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// Domain added to the search list of pods; empty for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub cluster_domain: String,
    /// Name servers of pods that use the cluster's DNS.
    #[serde(rename = "clusterDNS", skip_serializing_if = "is_zero")]
    pub cluster_dns: Vec<String>,
    /// Resolver configuration of pods that use the host's DNS; empty for none.
    pub resolv_conf: String,
    /// Has no effect.
    #[serde(deserialize_with = "empty_is_default")]
    pub hairpin_mode: HairpinMode,
    /// Whether the utility chains of the packet filter are set up.
    #[serde(rename = "makeIPTablesUtilChains")]
    pub make_iptables_util_chains: bool,
    /// Has no effect.
    pub iptables_masquerade_bit: i32,
    /// Has no effect.
    pub iptables_drop_bit: i32,
}

/// How a pod reached itself through a service; without effect today.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HairpinMode {
    /// The bridge was set promiscuous.
    #[default]
    PromiscuousBridge,
    /// The pod's port of the bridge reflected packets.
    HairpinVeth,
    /// Not at all.
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
    #[expect(clippy::unused_self, reason = "every section is completed the same way")]
    pub(super) fn complete(&mut self) {}
}
