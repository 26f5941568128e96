//! Facts of the machine.

/// Facts that pods are told about. Reads are small and cached by nobody: callers ask when they need them.
pub trait HostFacts: Send + Sync {
    /// Content of a resolv.conf-like file.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn resolv_conf(&self, path: &str) -> Result<String, std::io::Error>;

    /// Content of the host's /etc/hosts.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn hosts_file(&self) -> Result<String, std::io::Error>;

    /// The node's addresses, the primary one first.
    fn addresses(&self) -> Vec<std::net::IpAddr>;

    /// Every address of every interface.
    fn interface_addresses(&self) -> Vec<std::net::IpAddr>;

    /// The addresses that a host name stands for; none when it cannot be resolved. Blocks as long as the resolver does.
    fn look_up(&self, name: &str) -> Vec<std::net::IpAddr>;

    /// Who the machine is.
    fn identity(&self) -> model::MachineIdentity;

    /// Installed memory in bytes.
    fn memory_capacity(&self) -> u64;

    /// Logical CPUs.
    fn cpu_count(&self) -> usize;
}
