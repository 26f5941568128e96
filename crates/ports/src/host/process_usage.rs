//! Resource use of the agent's own process.

/// Resource use and limits of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessNumbers {
    /// User and system CPU time.
    pub cpu_seconds: f64,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Size of the address space.
    pub virtual_bytes: u64,
    /// Limit of the address space; `u64::MAX` for no limit.
    pub max_virtual_bytes: u64,
    /// Bytes received in its network namespace, including those of other processes.
    pub received_bytes: u64,
    /// Bytes sent in its network namespace.
    pub sent_bytes: u64,
    /// Open file descriptors.
    pub open_files: u64,
    /// Limit of open file descriptors.
    pub max_open_files: u64,
    /// Unix time of its start, in seconds.
    pub started: f64,
}

/// Reads the resource use of this process, in microseconds.
pub trait ProcessUsage: Send + Sync {
    /// The current values; `None` when they cannot be read.
    fn read(&self) -> Option<ProcessNumbers>;
}
