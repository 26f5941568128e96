//! The order in which pods are evicted.

use std::cmp::Reverse;
use std::sync::Arc;

use model::Pod;
use model::statistics::{ContainerStatistics, FsStatistics, PodStatistics};

use super::reclaim::DiskLayout;
use super::signals::{Signal, StarvedResource};
use crate::pod_resources::resources::pod_requests;
use crate::quantity::amount_in;

/// A pod and its usage; `None` if there are no statistics.
#[derive(Clone, Debug)]
pub struct PodUsage {
    /// With allocated resources.
    pub pod: Arc<Pod>,
    pub used: Option<PodStatistics>,
}

/// A part of the disk usage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskPart {
    /// Writable container layers.
    Rootfs,
    Logs,
    /// Volumes on a local filesystem.
    Volumes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct MeasuredUsage {
    exceeds_request: bool,
    above_request: i128,
}

/// Sorts pods; the first one is evicted first.
pub fn rank(pods: Vec<PodUsage>, signal: Signal, layout: DiskLayout) -> Vec<PodUsage> {
    let mut candidates: Vec<(Option<MeasuredUsage>, PodUsage)> = pods
        .into_iter()
        .map(|pod| (pod.used.as_ref().map(|used| measure(&pod.pod, used, signal, layout)), pod))
        .collect();
    // Pods without statistics come first: `None` is less than any value.
    candidates.sort_by_key(|(measured, pod)| {
        let exceeds = measured.map(|usage| Reverse(usage.exceeds_request));
        let by_excess = match signal.starved_resource() {
            StarvedResource::Memory | StarvedResource::EphemeralStorage | StarvedResource::Inodes => exceeds,
            StarvedResource::Pids => None,
        };
        let priority = pod.pod.spec.priority.unwrap_or(0);
        (by_excess, priority, measured.map(|usage| Reverse(usage.above_request)))
    });
    candidates.into_iter().map(|(_, pod)| pod).collect()
}

fn measure(pod: &Pod, used: &PodStatistics, signal: Signal, layout: DiskLayout) -> MeasuredUsage {
    let of_disks = |of: fn(&FsStatistics) -> Option<u64>| disk_use(pod, used, parts(signal, layout), of);
    // Large trees must not protect a pod, or others would be evicted for it.
    let is_partial = used.disk_use_is_partial && parts(signal, layout).contains(&DiskPart::Volumes);
    let (used, request, subtracted) = match signal.starved_resource() {
        StarvedResource::Memory => {
            let memory = used.memory.as_ref().and_then(|memory| memory.working_set_bytes);
            let request = request(pod, "memory");
            (u128::from(memory.unwrap_or(0)), request, request)
        }
        StarvedResource::EphemeralStorage => {
            let request = request(pod, "ephemeral-storage");
            (of_disks(|fs| fs.used_bytes), request, request)
        }
        // There are no requests for inodes; upstream subtracts the request of bytes.
        StarvedResource::Inodes => (of_disks(|fs| fs.inodes_used), 0, request(pod, "ephemeral-storage")),
        StarvedResource::Pids => {
            let count = used.processes.map_or(0, |processes| processes.process_count);
            (u128::from(count), 0, 0)
        }
    };
    let above = i128::try_from(used).unwrap_or(i128::MAX);
    let is_disk =
        matches!(signal.starved_resource(), StarvedResource::EphemeralStorage | StarvedResource::Inodes);
    let exceeds_request = above > request || (is_disk && is_partial);
    MeasuredUsage { exceeds_request, above_request: above.saturating_sub(subtracted) }
}

/// The request of a pod, including overhead if the request is not zero.
fn request(pod: &Pod, resource: &str) -> i128 {
    let own = pod_requests(pod).get(resource).copied().unwrap_or_default();
    let overhead = amount_in(pod.spec.overhead.as_ref(), resource);
    let total = if own.is_zero() { own } else { own + overhead };
    i128::from(total.units())
}

/// The parts of a pod that are on the filesystem of a signal.
fn parts(signal: Signal, layout: DiskLayout) -> &'static [DiskPart] {
    let is_node = matches!(signal, Signal::NodeFsAvailable | Signal::NodeFsInodesFree);
    let is_image = matches!(signal, Signal::ImageFsAvailable | Signal::ImageFsInodesFree);
    match layout {
        DiskLayout::DedicatedImageFs if is_node => &[DiskPart::Logs, DiskPart::Volumes],
        DiskLayout::DedicatedImageFs => &[DiskPart::Rootfs],
        DiskLayout::SplitImageFs if is_image => &[],
        DiskLayout::Single | DiskLayout::SplitImageFs => {
            &[DiskPart::Rootfs, DiskPart::Logs, DiskPart::Volumes]
        }
    }
}

fn disk_use(
    pod: &Pod,
    used: &PodStatistics,
    parts: &[DiskPart],
    of: fn(&FsStatistics) -> Option<u64>,
) -> u128 {
    let amount = |fs: Option<&FsStatistics>| u128::from(fs.and_then(of).unwrap_or(0));
    let containers = |part: fn(&ContainerStatistics) -> Option<&FsStatistics>| {
        used.containers.iter().map(|own| amount(part(own))).sum::<u128>()
    };
    let volumes = || {
        let local = pod.spec.volumes.iter().flatten().filter(|volume| is_local(volume));
        let found = local.filter_map(|volume| used.volumes.iter().find(|found| found.name == volume.name));
        found.map(|found| amount(Some(&found.fs))).sum::<u128>()
    };
    let part = |part: &DiskPart| match part {
        DiskPart::Rootfs => containers(|own| own.rootfs.as_ref()),
        DiskPart::Logs => containers(|own| own.logs.as_ref()),
        DiskPart::Volumes => volumes(),
    };
    parts.iter().map(part).sum()
}

/// Whether upstream counts the volume as local.
fn is_local(volume: &k8s_openapi::api::core::v1::Volume) -> bool {
    let on_disk = |medium: Option<&str>| medium.is_none_or(str::is_empty);
    volume.host_path.is_some()
        || volume.git_repo.is_some()
        || volume.config_map.is_some()
        || volume.empty_dir.as_ref().is_some_and(|dir| on_disk(dir.medium.as_deref()))
}
