//! What is seen of the node.

use std::collections::BTreeMap;

use model::Timestamp;
use model::usage::{CgroupUsage, FilesystemRoom, ProcessCount};

use super::signals::{Signal, Starved};
use crate::quantity::text::{binary, decimal};

/// One signal at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What is left.
    pub available: i64,
    /// What there is.
    pub capacity: i64,
    /// When.
    pub at: Timestamp,
}

/// What could be measured.
pub type Observations = BTreeMap<Signal, Observed>;

/// The node as it was read; what is missing was not asked for or did not answer.
#[derive(Clone, Debug, Default)]
pub struct NodeSight {
    /// When.
    pub at: Timestamp,
    /// Installed memory in bytes.
    pub memory: u64,
    /// The whole machine.
    pub root: Option<CgroupUsage>,
    /// The cgroup of all pods.
    pub pods: Option<CgroupUsage>,
    /// Disks.
    pub disks: DiskSight,
    /// Processes.
    pub processes: Option<ProcessCount>,
}

/// The disks of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSight {
    /// Of the agent's folder.
    pub node: Option<FilesystemRoom>,
    /// Of images.
    pub images: Option<FilesystemRoom>,
    /// Of containers' own files.
    pub containers: Option<FilesystemRoom>,
}

impl Observed {
    /// What is left, as messages write it.
    pub(super) fn text(&self, starved: Starved) -> String {
        match starved {
            Starved::Memory | Starved::EphemeralStorage => binary(self.available),
            Starved::Inodes | Starved::Pids => decimal(self.available),
        }
    }
}

/// The signals of a node.
#[must_use]
pub fn observe(sight: &NodeSight) -> Observations {
    let mut found = Observations::new();
    let mut put = |signal, available: u64, capacity: u64, at| {
        let amount = |number| i64::try_from(number).unwrap_or(i64::MAX);
        found.insert(signal, Observed { available: amount(available), capacity: amount(capacity), at });
    };
    if let Some(root) = &sight.root {
        let used = root.memory.working_set;
        let left = sight.memory.saturating_sub(used);
        put(Signal::MemoryAvailable, left, left.saturating_add(used), root.time);
    }
    // Without a limit nobody can say what is left below it.
    if let Some(pods) = &sight.pods
        && let Some(limit) = pods.memory.limit
    {
        let used = pods.memory.working_set;
        let left = limit.saturating_sub(used);
        put(Signal::AllocatableMemoryAvailable, left, left.saturating_add(used), pods.time);
    }
    let disks = [
        (sight.disks.node, Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
        (sight.disks.images, Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
        (sight.disks.containers, Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree),
    ];
    for (room, space, inodes) in disks {
        let Some(room) = room else { continue };
        put(space, room.available, room.capacity, sight.at);
        put(inodes, room.inodes_free, room.inodes, sight.at);
    }
    if let Some(count) = sight.processes {
        let available = count.max.saturating_sub(count.current);
        let observed = Observed { available, capacity: count.max, at: sight.at };
        found.insert(Signal::PidAvailable, observed);
    }
    found
}
