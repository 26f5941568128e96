//! The real wiring with a fake runtime: the life of pods, failures of the runtime, and kills of the agent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "virtual_node/certificates.rs"]
mod certificates;
#[path = "virtual_node/claims.rs"]
mod claims;
#[path = "virtual_node/cluster.rs"]
mod cluster;
#[path = "virtual_node/counts.rs"]
mod counts;
#[path = "virtual_node/cpus.rs"]
mod cpus;
#[path = "virtual_node/devices.rs"]
mod devices;
#[path = "virtual_node/earlier_releases.rs"]
mod earlier_releases;
#[path = "virtual_node/eviction.rs"]
mod eviction;
#[path = "virtual_node/hold.rs"]
mod hold;
#[path = "virtual_node/hooks.rs"]
mod hooks;
#[path = "virtual_node/isolation.rs"]
mod isolation;
#[path = "virtual_node/life.rs"]
mod life;
#[path = "virtual_node/memory.rs"]
mod memory;
#[path = "virtual_node/node.rs"]
mod node;
#[path = "virtual_node/probes.rs"]
mod probes;
#[path = "virtual_node/resources.rs"]
mod resources;
#[path = "virtual_node/shutdown.rs"]
mod shutdown;
#[path = "virtual_node/stepping.rs"]
mod stepping;
#[path = "virtual_node/sweep.rs"]
mod sweep;
#[path = "virtual_node/traces.rs"]
mod traces;
#[path = "virtual_node/trouble.rs"]
mod trouble;
