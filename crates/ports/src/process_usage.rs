//! What the agent's own process uses.

/// What a process uses and may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessNumbers {
    /// CPU time in seconds, of user and system together.
    pub cpu_seconds: f64,
    /// Memory in RAM, in bytes.
    pub resident_bytes: u64,
    /// Address space, in bytes.
    pub virtual_bytes: u64,
    /// Address space that it may have, in bytes; the greatest number means all.
    pub max_virtual_bytes: u64,
    /// Bytes that came in by its network, with those of everybody on it.
    pub received_bytes: u64,
    /// Bytes that went out.
    pub sent_bytes: u64,
    /// Open file descriptors.
    pub open_files: u64,
    /// Open file descriptors that it may have.
    pub max_open_files: u64,
    /// Unix time of its start, in seconds.
    pub started: f64,
}

/// Reads the numbers of this process. Takes microseconds.
pub trait ProcessUsage: Send + Sync {
    /// The numbers now; `None` when they cannot be read.
    fn read(&self) -> Option<ProcessNumbers>;
}
