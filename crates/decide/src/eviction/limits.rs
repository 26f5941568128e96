//! Limits of local storage: who breaks one has to go, however much room there is.

use std::cmp::Ordering;

use model::Pod;
use model::statistics::{FsStatistics, PodStatistics};

use super::reclaim::DiskLayout;
use crate::quantity::Amount;
use crate::quantity::text::{binary, decimal};
use crate::resources::{Totals, pod_limits};

const STORAGE: &str = "ephemeral-storage";

/// What must be measured of a pod to know whether it keeps its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitReadings {
    /// Nothing: it has none.
    #[default]
    Nothing,
    /// Its volumes.
    Volumes,
    /// Its volumes, its logs and its containers' own files.
    Everything,
}

/// A limit that a pod does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLimit {
    /// The word of metrics.
    pub signal: &'static str,
    /// For people.
    pub message: String,
}

/// What must be measured of a pod.
#[must_use]
pub fn limit_readings(pod: &Pod) -> LimitReadings {
    let containers = pod.spec.containers.iter().chain(pod.spec.init_containers.iter().flatten());
    let mut limits = containers.filter_map(|own| own.resources.as_ref()?.limits.as_ref());
    if limits.any(|list| list.contains_key(STORAGE)) {
        return LimitReadings::Everything;
    }
    let mut volumes = pod.spec.volumes.iter().flatten();
    let is_limited = volumes.any(|own| own.empty_dir.as_ref().is_some_and(|dir| dir.size_limit.is_some()));
    if is_limited { LimitReadings::Volumes } else { LimitReadings::Nothing }
}

/// The first limit that a pod breaks: of a volume, of the whole pod, of a container.
#[must_use]
pub fn broken_limit(pod: &Pod, used: &PodStatistics, layout: DiskLayout) -> Option<BrokenLimit> {
    volume_limit(pod, used).or_else(|| pod_limit(pod, used)).or_else(|| container_limit(pod, used, layout))
}

fn volume_limit(pod: &Pod, used: &PodStatistics) -> Option<BrokenLimit> {
    pod.spec.volumes.iter().flatten().find_map(|volume| {
        let limit = volume.empty_dir.as_ref()?.size_limit.as_ref()?;
        // Of two readings of one name the last one counts.
        let measured = used.volumes.iter().rfind(|own| own.name == volume.name)?;
        let exceeds = Amount::of(limit).is_positive() && amount(Some(&measured.fs)) > Amount::of(limit);
        exceeds.then(|| BrokenLimit {
            signal: "emptydirfs.limit",
            message: format!(
                "Usage of EmptyDir volume {:?} exceeds the limit {:?}. ",
                volume.name,
                written(&limit.0)
            ),
        })
    })
}

fn pod_limit(pod: &Pod, used: &PodStatistics) -> Option<BrokenLimit> {
    let own = *with_overhead(pod).get(STORAGE)?;
    let limit = own.units();
    let exceeds = amount(used.ephemeral_storage.as_ref()).cmp(&own) == Ordering::Greater;
    exceeds.then(|| BrokenLimit {
        signal: "ephemeralpodfs.limit",
        message: format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {}. ",
            if is_binary(pod) { binary(limit) } else { decimal(limit) }
        ),
    })
}

fn container_limit(pod: &Pod, used: &PodStatistics, layout: DiskLayout) -> Option<BrokenLimit> {
    used.containers.iter().find_map(|measured| {
        let container = pod.spec.containers.iter().find(|own| own.name == measured.name)?;
        let limit = container.resources.as_ref()?.limits.as_ref()?.get(STORAGE)?;
        let rootfs = match layout {
            DiskLayout::One => amount(measured.rootfs.as_ref()),
            // It lies elsewhere.
            DiskLayout::ImagesApart | DiskLayout::ImagesAndContainersApart => Amount::ZERO,
        };
        let own = Amount::of(limit);
        let exceeds = own.units() != 0 && amount(measured.logs.as_ref()) + rootfs > own;
        exceeds.then(|| BrokenLimit {
            signal: "ephemeralcontainerfs.limit",
            message: format!(
                "Container {} exceeded its local ephemeral storage limit {:?}. ",
                container.name,
                written(&limit.0)
            ),
        })
    })
}

/// Limits of a pod; overhead counts where there is a limit at all.
fn with_overhead(pod: &Pod) -> Totals {
    let mut limits = pod_limits(pod);
    for (name, limit) in &mut limits {
        if !limit.is_zero() {
            *limit = *limit + Amount::in_list(pod.spec.overhead.as_ref(), name);
        }
    }
    limits
}

fn amount(fs: Option<&FsStatistics>) -> Amount {
    let bytes = fs.and_then(|fs| fs.used_bytes).unwrap_or(0);
    Amount::whole(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// A sum has the form of its first part.
fn is_binary(pod: &Pod) -> bool {
    let limits = pod.spec.containers.iter().chain(pod.spec.init_containers.iter().flatten());
    let mut limits = limits.filter_map(|own| own.resources.as_ref()?.limits.as_ref()?.get(STORAGE));
    limits.next().is_some_and(|limit| limit.0.ends_with('i'))
}

/// A quantity as the API writes it.
fn written(text: &str) -> String {
    match Amount::parse(text) {
        // Fractions of a byte are nobody's limit; what cannot be read was refused before.
        Some(amount) if text.ends_with('i') => binary(amount.units()),
        Some(amount) if text.bytes().all(|byte| byte.is_ascii_digit()) => decimal(amount.units()),
        _ => text.to_owned(),
    }
}
