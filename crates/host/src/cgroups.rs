//! Cgroups of both versions: those of pods, and those of system processes.

mod hierarchies;
mod limits;
mod pod_cgroups;
mod processes;
mod system_cgroups;

pub(crate) use limits::{cpu_shares, cpu_weight};
pub use pod_cgroups::HostPodCgroups;
pub use system_cgroups::HostSystemCgroups;
