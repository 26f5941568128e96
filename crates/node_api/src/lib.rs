//! The node's API: what other programs ask the agent over HTTP.
//!
//! ```text
//!  main port (HTTPS) ─► authenticate ─► authorize ─┐
//!  read-only port (off unless configured) ─────────┼─► routers ─► one module per group of paths
//!  health check (loopback) ────────────────────────┤
//!  local socket (root only) ───────────────────────┘
//! ```
//! Comes in: the agent's published tables ([`Views`]) and ports. Goes out: answers; nothing here changes what the
//! agent does.
//!
//! Invariant: each listener has a router of its own, so that nothing appears on one because it was added to another.

mod about;
pub mod access;
mod answers;
mod check_record;
mod checkpoint;
mod container_logs;
mod debugging;
mod guarded_body;
mod health;
mod listener;
mod local;
mod metrics_pages;
mod node_logs;
mod peer;
mod pod_lookup;
mod pods;
mod profiling;
mod queries;
mod request_metrics;
mod request_spans;
mod routers;
mod running_pods;
mod statistics;
mod streaming;
mod views;

pub use about::About;
pub use check_record::CheckRecord;
pub use checkpoint::CheckpointParts;
pub use container_logs::LogParts;
pub use debugging::DebugParts;
pub use listener::{serve, serve_tls};
pub use local::{LocalNode, LocalParts, LocalSocket, LocalSocketError, local_router, starting_router};
pub use node_logs::NodeLogParts;
pub use peer::Peer;
pub use pod_lookup::PodLookup;
pub use profiling::ProfilingParts;
pub use routers::{MainParts, health_router, main_router, read_only_router};
pub use streaming::{Sessions, StreamingParts};
pub use tokio_rustls::rustls::ServerConfig;
pub use views::Views;
