//! Turns readings of the node into eviction signals.

use std::collections::BTreeMap;

use model::Timestamp;
use model::usage::{CgroupUsage, FilesystemRoom, ProcessCount};
use values::quantity::{binary_si, decimal_si};

use super::signals::{Signal, StarvedResource};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalObservation {
    pub available: i64,
    pub capacity: i64,
    pub at: Timestamp,
}

/// Signals without a reading are missing.
pub type SignalObservations = BTreeMap<Signal, SignalObservation>;

/// Readings of the node; a value is `None` if it is not needed or could not be read.
#[derive(Clone, Debug, Default)]
pub struct NodeReadings {
    pub at: Timestamp,
    /// Memory capacity in bytes.
    pub memory: u64,
    pub root: Option<CgroupUsage>,
    pub pods: Option<CgroupUsage>,
    pub disks: DiskReadings,
    pub processes: Option<ProcessCount>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReadings {
    /// Filesystem of the agent's root directory.
    pub node: Option<FilesystemRoom>,
    pub images: Option<FilesystemRoom>,
    pub containers: Option<FilesystemRoom>,
}

impl SignalObservation {
    /// The available amount as a Kubernetes quantity.
    pub(super) fn text(&self, starved: StarvedResource) -> String {
        match starved {
            StarvedResource::Memory | StarvedResource::EphemeralStorage => binary_si(self.available),
            StarvedResource::Inodes | StarvedResource::Pids => decimal_si(self.available),
        }
    }
}

/// Computes the signals from the readings.
pub fn observe_signals(readings: &NodeReadings) -> SignalObservations {
    let mut found = SignalObservations::new();
    let mut put = |signal, available: u64, capacity: u64, at| {
        let amount = |number| i64::try_from(number).unwrap_or(i64::MAX);
        found.insert(
            signal,
            SignalObservation { available: amount(available), capacity: amount(capacity), at },
        );
    };
    if let Some(root) = &readings.root {
        let used = root.memory.working_set;
        let left = readings.memory.saturating_sub(used);
        put(Signal::MemoryAvailable, left, left.saturating_add(used), root.time);
    }
    // Without a limit there is no remaining amount.
    if let Some(pods) = &readings.pods
        && let Some(limit) = pods.memory.limit
    {
        let used = pods.memory.working_set;
        let left = limit.saturating_sub(used);
        put(Signal::AllocatableMemoryAvailable, left, left.saturating_add(used), pods.time);
    }
    let disks = [
        (readings.disks.node, Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
        (readings.disks.images, Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
        (readings.disks.containers, Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree),
    ];
    for (room, space, inodes) in disks {
        let Some(room) = room else { continue };
        put(space, room.available, room.capacity, readings.at);
        put(inodes, room.inodes_free, room.inodes, readings.at);
    }
    if let Some(count) = readings.processes {
        let available = count.max.saturating_sub(count.current);
        let observed = SignalObservation { available, capacity: count.max, at: readings.at };
        found.insert(Signal::PidAvailable, observed);
    }
    found
}
