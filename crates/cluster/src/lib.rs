//! Adapters that implement `ports::api` on a real API server.
//!
//! Input: a kubeconfig. Output: [`Clients`] (API clients with separate rate limits) and one adapter per kind of object.
//! Watches reconnect, resume and list again in this crate; callers decide whether to retry a failed write.
//!
//! The crate makes no decisions about pods or the node.

mod clients;
mod csi_nodes;
mod deadline;
mod errors;
mod events;
mod feed;
pub mod identity;
mod leases;
mod nodes;
mod objects;
mod pod_certificates;
mod pods;
mod reviews;
mod service_accounts;
mod services;
#[cfg(test)]
mod test_server;
mod tokens;
mod transport;
mod trust_bundles;
mod volumes;
mod watch_backoff;

pub use clients::{ClientSettings, Clients, ConnectError};
pub use csi_nodes::CsiNodesAdapter;
pub use events::EventsAdapter;
pub use leases::LeasesAdapter;
pub use nodes::NodesAdapter;
pub use objects::ObjectsAdapter;
pub use pod_certificates::PodCertificatesAdapter;
pub use pods::PodsAdapter;
pub use reviews::ReviewsAdapter;
pub use service_accounts::ServiceAccountsAdapter;
pub use services::{RuntimeClassesAdapter, ServicesAdapter};
pub use tokens::TokensAdapter;
pub use transport::RateLimit;
pub use trust_bundles::TrustBundlesAdapter;
pub use volumes::VolumesAdapter;
