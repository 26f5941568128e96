//! In which order pods have to go.

use std::cmp::Ordering;
use std::sync::Arc;

use model::Pod;
use model::statistics::{ContainerStatistics, FsStatistics, PodStatistics};

use super::reclaim::DiskLayout;
use super::signals::{Signal, Starved};
use crate::quantity::Amount;
use crate::resources::pod_requests;

/// A pod and what it uses, if anybody knows.
#[derive(Clone, Debug)]
pub struct PodUse {
    /// The pod, as it was granted.
    pub pod: Arc<Pod>,
    /// What it uses.
    pub used: Option<PodStatistics>,
}

/// A part of what a pod takes of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Containers' own files.
    Rootfs,
    /// Their logs.
    Logs,
    /// Volumes on the node's own disk.
    Volumes,
}

/// A pod as it is compared.
struct Candidate {
    priority: i32,
    measured: Option<Measured>,
    subject: PodUse,
}

#[derive(Clone, Copy)]
struct Measured {
    exceeds_request: bool,
    above_request: i128,
}

/// Orders pods: who has to go first comes first.
#[must_use]
pub fn rank(pods: Vec<PodUse>, signal: Signal, layout: DiskLayout) -> Vec<PodUse> {
    let candidate = |subject: PodUse| Candidate {
        priority: subject.pod.spec.priority.unwrap_or(0),
        measured: subject.used.as_ref().map(|used| measure(&subject.pod, used, signal, layout)),
        subject,
    };
    let mut candidates: Vec<Candidate> = pods.into_iter().map(candidate).collect();
    match signal.starved() {
        Starved::Memory | Starved::EphemeralStorage | Starved::Inodes => candidates.sort_by(|one, other| {
            by_excess(one, other).then(by_priority(one, other)).then(by_use(one, other))
        }),
        Starved::Pids => {
            candidates.sort_by(|one, other| by_priority(one, other).then(by_use(one, other)));
        }
    }
    candidates.into_iter().map(|candidate| candidate.subject).collect()
}

fn by_priority(one: &Candidate, other: &Candidate) -> Ordering {
    one.priority.cmp(&other.priority)
}

/// Pods that use more than they requested come first, and before them those of which nothing is known.
fn by_excess(one: &Candidate, other: &Candidate) -> Ordering {
    match (one.measured, other.measured) {
        (Some(one), Some(other)) => other.exceeds_request.cmp(&one.exceeds_request),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}

/// Pods that use most above their request come first, and before them those of which nothing is known.
fn by_use(one: &Candidate, other: &Candidate) -> Ordering {
    match (one.measured, other.measured) {
        (Some(one), Some(other)) => other.above_request.cmp(&one.above_request),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}

fn measure(pod: &Pod, used: &PodStatistics, signal: Signal, layout: DiskLayout) -> Measured {
    let of_disks = |of: fn(&FsStatistics) -> Option<u64>| disk_use(pod, used, parts(signal, layout), of);
    let (used, request, subtracted) = match signal.starved() {
        Starved::Memory => {
            let memory = used.memory.as_ref().and_then(|memory| memory.working_set_bytes);
            let request = request(pod, "memory");
            (u128::from(memory.unwrap_or(0)), request, request)
        }
        Starved::EphemeralStorage => {
            let request = request(pod, "ephemeral-storage");
            (of_disks(|fs| fs.used_bytes), request, request)
        }
        // Nobody requests inodes; what upstream subtracts from them is the request of bytes.
        Starved::Inodes => (of_disks(|fs| fs.inodes_used), 0, request(pod, "ephemeral-storage")),
        Starved::Pids => {
            let count = used.processes.map_or(0, |processes| processes.process_count);
            (u128::from(count), 0, 0)
        }
    };
    let used = i128::try_from(used).unwrap_or(i128::MAX);
    Measured { exceeds_request: used > request, above_request: used - subtracted }
}

/// What a pod requests, with its overhead if it requests any.
fn request(pod: &Pod, resource: &str) -> i128 {
    let own = pod_requests(pod).get(resource).copied().unwrap_or_default();
    let overhead = Amount::in_list(pod.spec.overhead.as_ref(), resource);
    let total = if own.is_zero() { own } else { own + overhead };
    i128::from(total.units())
}

/// The parts of a pod that lie on the disk of a signal.
fn parts(signal: Signal, layout: DiskLayout) -> &'static [Part] {
    let is_node = matches!(signal, Signal::NodeFsAvailable | Signal::NodeFsInodesFree);
    let is_image = matches!(signal, Signal::ImageFsAvailable | Signal::ImageFsInodesFree);
    match layout {
        DiskLayout::ImagesApart if is_node => &[Part::Logs, Part::Volumes],
        DiskLayout::ImagesApart => &[Part::Rootfs],
        DiskLayout::ImagesAndContainersApart if is_image => &[],
        DiskLayout::One | DiskLayout::ImagesAndContainersApart => &[Part::Rootfs, Part::Logs, Part::Volumes],
    }
}

fn disk_use(pod: &Pod, used: &PodStatistics, parts: &[Part], of: fn(&FsStatistics) -> Option<u64>) -> u128 {
    let amount = |fs: Option<&FsStatistics>| u128::from(fs.and_then(of).unwrap_or(0));
    let containers = |part: fn(&ContainerStatistics) -> Option<&FsStatistics>| {
        used.containers.iter().map(|own| amount(part(own))).sum::<u128>()
    };
    let volumes = || {
        let local = pod.spec.volumes.iter().flatten().filter(|volume| is_local(volume));
        let found = local.filter_map(|volume| used.volumes.iter().find(|found| found.name == volume.name));
        found.map(|found| amount(Some(&found.fs))).sum::<u128>()
    };
    let part = |part: &Part| match part {
        Part::Rootfs => containers(|own| own.rootfs.as_ref()),
        Part::Logs => containers(|own| own.logs.as_ref()),
        Part::Volumes => volumes(),
    };
    parts.iter().map(part).sum()
}

/// Whether a volume lies on the node's own disk, as upstream counts it here.
fn is_local(volume: &k8s_openapi::api::core::v1::Volume) -> bool {
    let on_disk = |medium: Option<&str>| medium.is_none_or(str::is_empty);
    volume.host_path.is_some()
        || volume.git_repo.is_some()
        || volume.config_map.is_some()
        || volume.empty_dir.as_ref().is_some_and(|dir| on_disk(dir.medium.as_deref()))
}
