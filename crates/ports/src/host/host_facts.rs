//! Facts about the machine.

/// Facts about the machine. Every call reads them again.
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

    /// Resolves a host name; empty when that fails. Blocks as long as the resolver does.
    fn look_up(&self, name: &str) -> Vec<std::net::IpAddr>;

    /// Machine ID, boot ID and the like.
    fn identity(&self) -> model::MachineIdentity;

    /// Installed memory in bytes.
    fn memory_capacity(&self) -> u64;

    /// Logical CPUs.
    fn cpu_count(&self) -> usize;
}
