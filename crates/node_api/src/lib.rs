//! The node's HTTP API.
//!
//! ```text
//!  main port (HTTPS) ─► authenticate ─► authorize ─┐
//!  read-only port (off unless configured) ─────────┼─► routers ─► one module per group of paths
//!  health check (loopback) ────────────────────────┤
//!  local socket (root only) ───────────────────────┘
//! ```
//! Comes in: the agent's published tables ([`PublishedState`]) and ports. Goes out: responses; no request changes what
//! the agent does.
//!
//! Invariant: each listener has its own router, so a path that is added to one listener does not appear on another.

pub mod access;
mod checkpoint;
mod container_logs;
mod debugging;
mod guarded_body;
mod health;
mod health_check_metrics;
mod listener;
mod local;
mod metrics_pages;
mod node_logs;
mod peer;
mod pod_lookup;
mod pods;
mod profiling;
mod published_state;
mod queries;
mod request_metrics;
mod request_spans;
mod responses;
mod routers;
mod running_pods;
mod statistics;
mod streaming;
mod zpages;

pub use checkpoint::CheckpointDeps;
pub use container_logs::ContainerLogDeps;
pub use debugging::DebugDeps;
pub use health_check_metrics::HealthCheckMetrics;
pub use listener::{serve, serve_tls};
pub use local::{LocalApiDeps, LocalNodeDeps, LocalSocket, LocalSocketError, local_router, starting_router};
pub use node_logs::NodeLogDeps;
pub use peer::Peer;
pub use pod_lookup::PodLookup;
pub use profiling::ProfilingDeps;
pub use published_state::PublishedState;
pub use routers::{MainRouterDeps, health_router, main_router, read_only_router};
pub use streaming::{StreamSessions, StreamingDeps};
pub use tokio_rustls::rustls::ServerConfig;
pub use zpages::ZPagesDeps;
