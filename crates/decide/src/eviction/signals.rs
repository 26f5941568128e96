/// Something that is measured of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Memory of the machine.
    MemoryAvailable,
    /// Memory of the cgroup of all pods.
    AllocatableMemoryAvailable,
    /// Space where the agent has its folder.
    NodeFsAvailable,
    /// Inodes there.
    NodeFsInodesFree,
    /// Space where images are.
    ImageFsAvailable,
    /// Inodes there.
    ImageFsInodesFree,
    /// Space where containers' own files are.
    ContainerFsAvailable,
    /// Inodes there.
    ContainerFsInodesFree,
    /// Process ids.
    PidAvailable,
}

/// What a signal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Starved {
    /// Memory.
    Memory,
    /// Space on disks.
    EphemeralStorage,
    /// Inodes.
    Inodes,
    /// Process ids.
    Pids,
}

/// The node's condition that a signal makes true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shortage {
    Memory,
    Disk,
    Pid,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::MemoryAvailable,
        Self::AllocatableMemoryAvailable,
        Self::NodeFsAvailable,
        Self::NodeFsInodesFree,
        Self::ImageFsAvailable,
        Self::ImageFsInodesFree,
        Self::ContainerFsAvailable,
        Self::ContainerFsInodesFree,
        Self::PidAvailable,
    ];

    /// The word of configuration and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::AllocatableMemoryAvailable => "allocatableMemory.available",
            Self::NodeFsAvailable => "nodefs.available",
            Self::NodeFsInodesFree => "nodefs.inodesFree",
            Self::ImageFsAvailable => "imagefs.available",
            Self::ImageFsInodesFree => "imagefs.inodesFree",
            Self::ContainerFsAvailable => "containerfs.available",
            Self::ContainerFsInodesFree => "containerfs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }

    /// The signal of a word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.as_str() == word)
    }

    /// What it is about.
    #[must_use]
    pub fn starved(self) -> Starved {
        match self {
            Self::MemoryAvailable | Self::AllocatableMemoryAvailable => Starved::Memory,
            Self::NodeFsAvailable | Self::ImageFsAvailable | Self::ContainerFsAvailable => {
                Starved::EphemeralStorage
            }
            Self::NodeFsInodesFree | Self::ImageFsInodesFree | Self::ContainerFsInodesFree => Starved::Inodes,
            Self::PidAvailable => Starved::Pids,
        }
    }

    pub(super) fn shortage(self) -> Shortage {
        match self.starved() {
            Starved::Memory => Shortage::Memory,
            Starved::EphemeralStorage | Starved::Inodes => Shortage::Disk,
            Starved::Pids => Shortage::Pid,
        }
    }
}

impl Starved {
    /// The word of messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Inodes => "inodes",
            Self::Pids => "pids",
        }
    }
}
