//! Limits of local storage. A pod that exceeds one is evicted, whether or not the node is under pressure.

use std::cmp::Ordering;

use model::Pod;
use model::statistics::{FsStatistics, PodStatistics};
use values::quantity::{Amount, binary_si, decimal_si};

use super::reclaim::DiskLayout;
use crate::pod_resources::resources::{ResourceTotals, pod_limits};
use crate::quantity::{amount_in, amount_of};

const STORAGE: &str = "ephemeral-storage";

/// Measurements that are needed to check the limits of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequiredMeasurements {
    /// The pod has no limits.
    #[default]
    Nothing,
    Volumes,
    /// Volumes, logs and writable container layers.
    Everything,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceededLimit {
    pub signal: &'static str,
    pub message: String,
}

pub fn required_measurements(pod: &Pod) -> RequiredMeasurements {
    let containers = pod.spec.containers.iter().chain(pod.spec.init_containers.iter().flatten());
    let mut limits = containers.filter_map(|own| own.resources.as_ref()?.limits.as_ref());
    if limits.any(|list| list.contains_key(STORAGE)) {
        return RequiredMeasurements::Everything;
    }
    let mut volumes = pod.spec.volumes.iter().flatten();
    let is_limited = volumes.any(|own| own.empty_dir.as_ref().is_some_and(|dir| dir.size_limit.is_some()));
    if is_limited { RequiredMeasurements::Volumes } else { RequiredMeasurements::Nothing }
}

/// The first limit that a pod exceeds: of a volume, of the pod, of a container.
pub fn exceeded_limit(pod: &Pod, used: &PodStatistics, layout: DiskLayout) -> Option<ExceededLimit> {
    volume_limit(pod, used).or_else(|| pod_limit(pod, used)).or_else(|| container_limit(pod, used, layout))
}

fn volume_limit(pod: &Pod, used: &PodStatistics) -> Option<ExceededLimit> {
    pod.spec.volumes.iter().flatten().find_map(|volume| {
        let limit = volume.empty_dir.as_ref()?.size_limit.as_ref()?;
        // If there are two readings for one name, the last one counts.
        let measured = used.volumes.iter().rfind(|own| own.name == volume.name)?;
        let exceeds = amount_of(limit).is_positive() && amount(Some(&measured.fs)) > amount_of(limit);
        exceeds.then(|| ExceededLimit {
            signal: "emptydirfs.limit",
            message: format!(
                "Usage of EmptyDir volume {:?} exceeds the limit {:?}. ",
                volume.name,
                canonical(&limit.0)
            ),
        })
    })
}

fn pod_limit(pod: &Pod, used: &PodStatistics) -> Option<ExceededLimit> {
    let own = *with_overhead(pod).get(STORAGE)?;
    let limit = own.units();
    let exceeds = amount(used.ephemeral_storage.as_ref()).cmp(&own) == Ordering::Greater;
    exceeds.then(|| ExceededLimit {
        signal: "ephemeralpodfs.limit",
        message: format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {}. ",
            if is_binary(pod) { binary_si(limit) } else { decimal_si(limit) }
        ),
    })
}

fn container_limit(pod: &Pod, used: &PodStatistics, layout: DiskLayout) -> Option<ExceededLimit> {
    used.containers.iter().find_map(|measured| {
        let container = pod.spec.containers.iter().find(|own| own.name == measured.name)?;
        let limit = container.resources.as_ref()?.limits.as_ref()?.get(STORAGE)?;
        let rootfs = match layout {
            DiskLayout::Single => amount(measured.rootfs.as_ref()),
            // The writable layer is on another filesystem.
            DiskLayout::DedicatedImageFs | DiskLayout::SplitImageFs => Amount::ZERO,
        };
        let own = amount_of(limit);
        let exceeds = own.units() != 0 && amount(measured.logs.as_ref()) + rootfs > own;
        exceeds.then(|| ExceededLimit {
            signal: "ephemeralcontainerfs.limit",
            message: format!(
                "Container {} exceeded its local ephemeral storage limit {:?}. ",
                container.name,
                canonical(&limit.0)
            ),
        })
    })
}

/// Limits of a pod, with overhead added to each limit that is not zero.
fn with_overhead(pod: &Pod) -> ResourceTotals {
    let mut limits = pod_limits(pod);
    for (name, limit) in &mut limits {
        if !limit.is_zero() {
            *limit = *limit + amount_in(pod.spec.overhead.as_ref(), name);
        }
    }
    limits
}

fn amount(fs: Option<&FsStatistics>) -> Amount {
    let bytes = fs.and_then(|fs| fs.used_bytes).unwrap_or(0);
    Amount::from_units(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// The first limit decides whether the sum is formatted with binary suffixes.
fn is_binary(pod: &Pod) -> bool {
    let limits = pod.spec.containers.iter().chain(pod.spec.init_containers.iter().flatten());
    let mut limits = limits.filter_map(|own| own.resources.as_ref()?.limits.as_ref()?.get(STORAGE));
    limits.next().is_some_and(|limit| limit.0.ends_with('i'))
}

/// A quantity in canonical form.
fn canonical(text: &str) -> String {
    match Amount::parse(text) {
        // Validation has rejected everything that cannot be parsed.
        Some(amount) if text.ends_with('i') => binary_si(amount.units()),
        Some(amount) if text.bytes().all(|byte| byte.is_ascii_digit()) => decimal_si(amount.units()),
        _ => text.to_owned(),
    }
}
