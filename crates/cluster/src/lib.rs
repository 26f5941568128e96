//! Adapters that implement `ports::api` on a real API server.
//!
//! Input: a kubeconfig. Output: [`Clients`] (API clients with separate rate limits) and [`ApiServerAdapter`], which
//! implements the ports with them.
//! Watches reconnect, resume and list again in this crate; callers decide whether to retry a failed write.
//!
//! The crate makes no decisions about pods or the node.

mod adapter;
mod clients;
mod csi_nodes;
mod errors;
mod events;
mod feed;
pub mod identity;
mod leases;
mod nodes;
mod objects;
mod pod_certificates;
mod pods;
mod resource_claims;
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

pub use adapter::ApiServerAdapter;
pub use clients::{ClientSettings, Clients, ConnectError};
pub use transport::RateLimit;
