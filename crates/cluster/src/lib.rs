//! The kube-apiserver side of the ports.
//!
//! Comes in: a kubeconfig. Goes out: [`Clients`], one per lane, and an adapter per kind of object (`ports::api`).
//! Watches reconnect, resume and list again here; whether a failed write is tried again is the caller's choice.
//!
//! It deliberately decides nothing about pods or the node.

mod clients;
mod csi_nodes;
mod deadline;
mod errors;
mod events;
mod feed;
pub mod identity;
mod lanes;
mod leases;
mod nodes;
mod objects;
mod pauses;
mod pod_certificates;
mod pods;
mod reviews;
mod service_accounts;
mod services;
#[cfg(test)]
mod test_server;
mod tokens;
mod trust_bundles;
mod volumes;

pub use clients::{ClientSettings, Clients, ConnectError};
pub use csi_nodes::CsiNodesAdapter;
pub use events::EventsAdapter;
pub use lanes::Rate;
pub use leases::LeasesAdapter;
pub use nodes::NodesAdapter;
pub use objects::ObjectsAdapter;
pub use pod_certificates::PodCertificatesAdapter;
pub use pods::PodsAdapter;
pub use reviews::ReviewsAdapter;
pub use service_accounts::ServiceAccountsAdapter;
pub use services::{RuntimeClassesAdapter, ServicesAdapter};
pub use tokens::TokensAdapter;
pub use trust_bundles::TrustBundlesAdapter;
pub use volumes::VolumesAdapter;
