//! Facts and capabilities of this machine, and the settings that the agent makes at startup.

mod capabilities;
mod capacity;
mod cpu_topology;
mod facts;
mod kernel_tunables;
mod numa_nodes;
mod selinux_policy;
mod startup;

pub use capabilities::host_capabilities;
pub(crate) use capabilities::selinux_enabled;
pub use capacity::{apparmor, kernel_version, node_capacity, online_cpus, page_size};
pub use cpu_topology::cpu_topology;
pub use facts::MachineFacts;
pub use kernel_tunables::{KernelTunableBehaviour, kernel_tunables};
pub use numa_nodes::numa_nodes;
pub use startup::{
    hostname, in_user_namespace, limit_malloc_arenas, make_rshared, raise_open_file_limit,
    release_free_memory, release_startup_pages, set_oom_score_adj, swap_capacity, swap_enabled,
    tmpfs_supports_noswap,
};

/// A size in a file such as `/proc/meminfo`, from a line such as `MemTotal:       24682416 kB`.
pub(crate) fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB"))?;
    value.trim().parse::<u64>().ok()?.checked_mul(1024)
}
