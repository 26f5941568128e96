//! Processes that belong to no pod, and the cgroups they are in.

/// Processes that may be moved between cgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemProcesses {
    pub own: OwnProcess,
    /// Processes directly in the root cgroup.
    pub in_root: Vec<RootProcess>,
}

/// The agent's own process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnProcess {
    pub pid: u32,
    /// Its cgroups, one for each hierarchy that counts.
    pub cgroups: Vec<String>,
    /// Whose numbers it counts in.
    pub namespace: PidNamespace,
}

/// Whose process numbers somebody counts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PidNamespace {
    /// Those of the machine's first process.
    #[default]
    Machine,
    /// Those of a container.
    Other,
}

/// A process in the root cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootProcess {
    pub pid: u32,
    pub kind: ProcessKind,
}

/// Whose a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKind {
    /// A thread of the kernel: it runs no program.
    Kernel,
    Program,
}
