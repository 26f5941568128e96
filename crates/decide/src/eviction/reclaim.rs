//! Actions that reclaim disk space before a pod is evicted.

use super::signals::Signal;

/// Which filesystems hold pods, images and containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskLayout {
    /// One filesystem for everything.
    #[default]
    Single,
    /// Images and containers share a filesystem, separate from that of the pods directory.
    DedicatedImageFs,
    /// Images and containers are on different filesystems.
    SplitImageFs,
}

/// Something that can be removed without affecting pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimAction {
    /// All containers of finished pods, and surplus dead containers of others.
    DeadContainers,
    UnusedImages,
}

/// The layout, from the devices of the agent's root directory, the images and the containers.
pub fn disk_layout<D: PartialEq>(node: &D, images: &D, containers: &D) -> DiskLayout {
    if images != containers {
        DiskLayout::SplitImageFs
    } else if images != node {
        DiskLayout::DedicatedImageFs
    } else {
        DiskLayout::Single
    }
}

/// The reclaim actions for a signal, in order. There are none for memory and process IDs.
pub fn reclaim_actions(signal: Signal, layout: DiskLayout) -> &'static [ReclaimAction] {
    use DiskLayout::{DedicatedImageFs, Single, SplitImageFs};
    use ReclaimAction::{DeadContainers, UnusedImages};
    match (signal, layout) {
        (Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable, _)
        | (Signal::NodeFsAvailable | Signal::NodeFsInodesFree, DedicatedImageFs) => &[],
        (Signal::ImageFsAvailable | Signal::ImageFsInodesFree, SplitImageFs) => &[UnusedImages],
        (
            Signal::NodeFsAvailable
            | Signal::NodeFsInodesFree
            | Signal::ContainerFsAvailable
            | Signal::ContainerFsInodesFree,
            SplitImageFs,
        ) => &[DeadContainers],
        (
            Signal::ImageFsAvailable
            | Signal::ImageFsInodesFree
            | Signal::ContainerFsAvailable
            | Signal::ContainerFsInodesFree,
            Single | DedicatedImageFs,
        )
        | (Signal::NodeFsAvailable | Signal::NodeFsInodesFree, Single) => &[DeadContainers, UnusedImages],
    }
}
