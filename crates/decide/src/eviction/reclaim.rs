//! What the node can give up before a pod has to go.

use super::signals::Signal;

/// On which disks the node keeps what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskLayout {
    /// Everything on one.
    #[default]
    One,
    /// Images and containers together on one of their own.
    ImagesApart,
    /// Images and containers on different ones.
    ImagesAndContainersApart,
}

/// Something that nobody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Containers of pods that are over, and those beyond what is kept.
    DeadContainers,
    /// Images that no container uses.
    UnusedImages,
}

/// The layout, by the devices of the node's folder, of images and of containers.
#[must_use]
pub fn layout<D: PartialEq>(node: &D, images: &D, containers: &D) -> DiskLayout {
    if images != containers {
        DiskLayout::ImagesAndContainersApart
    } else if images != node {
        DiskLayout::ImagesApart
    } else {
        DiskLayout::One
    }
}

/// What is given up for a signal, in this order. Memory and process ids have nothing to give up.
#[must_use]
pub fn reclaims(signal: Signal, layout: DiskLayout) -> &'static [Reclaim] {
    use DiskLayout::{ImagesAndContainersApart, ImagesApart, One};
    use Reclaim::{DeadContainers, UnusedImages};
    match (signal, layout) {
        (Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable, _)
        | (Signal::NodeFsAvailable | Signal::NodeFsInodesFree, ImagesApart) => &[],
        (Signal::ImageFsAvailable | Signal::ImageFsInodesFree, ImagesAndContainersApart) => &[UnusedImages],
        (
            Signal::NodeFsAvailable
            | Signal::NodeFsInodesFree
            | Signal::ContainerFsAvailable
            | Signal::ContainerFsInodesFree,
            ImagesAndContainersApart,
        ) => &[DeadContainers],
        (
            Signal::ImageFsAvailable
            | Signal::ImageFsInodesFree
            | Signal::ContainerFsAvailable
            | Signal::ContainerFsInodesFree,
            One | ImagesApart,
        )
        | (Signal::NodeFsAvailable | Signal::NodeFsInodesFree, One) => &[DeadContainers, UnusedImages],
    }
}
