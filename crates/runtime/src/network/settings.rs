//! Where pod networks keep their state, and what the built-in network looks like.

use std::path::PathBuf;

use super::cidr::Cidr;

/// Settings of all pod networks of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Reserved addresses and host ports, and results of CNI plugins. Must survive a restart of the process.
    pub state_folder: PathBuf,
    /// A CNI configuration here replaces the built-in network.
    pub cni_config_folder: PathBuf,
    /// Where CNI plugins are looked for, in this order.
    pub cni_binary_folders: Vec<PathBuf>,
    pub bridge: String,
    /// At most one range per family. Empty: the ranges of the last [`super::PodNetworks::set_pod_cidrs`], or
    /// [`DEFAULT_POD_CIDR`].
    pub pod_cidrs: Vec<Cidr>,
    /// Maximum packet size of the bridge and of pods; `None`: that of the links with a default route.
    pub mtu: Option<u32>,
    /// The `inet` table of nf_tables that belongs to podward alone.
    pub nft_table: String,
}

/// The range of pods' addresses of a node without one.
pub const DEFAULT_POD_CIDR: &str = "10.85.0.0/16";

/// The bridge of a node without a configured one.
pub const DEFAULT_BRIDGE: &str = "podward0";
const DEFAULT_TABLE: &str = "podward";

impl NetworkSettings {
    /// The usual folders and names.
    #[must_use]
    pub fn new(state_folder: PathBuf) -> Self {
        Self {
            state_folder,
            cni_config_folder: "/etc/cni/net.d".into(),
            cni_binary_folders: vec!["/opt/cni/bin".into(), "/usr/lib/cni".into()],
            bridge: DEFAULT_BRIDGE.to_owned(),
            pod_cidrs: Vec::new(),
            mtu: None,
            nft_table: DEFAULT_TABLE.to_owned(),
        }
    }

    /// Another bridge and another table: the rules of a table apply to one bridge.
    #[must_use]
    pub fn with_bridge(mut self, bridge: &str) -> Self {
        bridge.clone_into(&mut self.bridge);
        if bridge != DEFAULT_BRIDGE {
            bridge.clone_into(&mut self.nft_table);
        }
        self
    }
}
