//! Metric families of claimed volumes and container logs.

use std::collections::BTreeSet;

use model::metric_family::MetricFamily;

use super::families::{Labels, count, gauge, in_order, plain};
use super::readings::RunningPod;
use super::summary::{PodFilesReading, VolumeReading};

/// The families of claimed volumes; a claim that several pods use appears once.
pub fn claim_families<'a>(files: impl Iterator<Item = &'a PodFilesReading>) -> Vec<MetricFamily> {
    let mut seen = BTreeSet::new();
    let volumes = files.flat_map(|files| &files.volumes);
    let first: Vec<&VolumeReading> =
        volumes.filter(|volume| volume.claim.as_ref().is_some_and(|claim| seen.insert(claim))).collect();
    let family = |name, help, value: fn(&VolumeReading) -> Option<u64>| {
        let series = first.iter().filter_map(|volume| {
            let claim = volume.claim.as_ref()?;
            let labels: Labels =
                vec![("namespace", claim.namespace.clone()), ("persistentvolumeclaim", claim.name.clone())];
            Some(plain(labels, count(value(volume)?)))
        });
        gauge(name, help, series)
    };
    in_order(vec![
        family("kubelet_volume_stats_capacity_bytes", "Size of the volume", |volume| {
            Some(volume.room.capacity)
        }),
        family("kubelet_volume_stats_available_bytes", "Free bytes of the volume", |volume| {
            Some(volume.room.available)
        }),
        family("kubelet_volume_stats_used_bytes", "Used bytes of the volume", |volume| {
            Some(volume.used.map_or(volume.room.used, |used| used.bytes))
        }),
        family("kubelet_volume_stats_inodes", "Inodes of the volume", |volume| Some(volume.room.inodes)),
        family("kubelet_volume_stats_inodes_free", "Free inodes of the volume", |volume| {
            Some(volume.room.inodes_free)
        }),
        family("kubelet_volume_stats_inodes_used", "Used inodes of the volume", |volume| {
            let all = volume.room.inodes.saturating_sub(volume.room.inodes_free);
            Some(volume.used.map_or(all, |used| used.inodes))
        }),
        family(
            "kubelet_volume_stats_health_status_abnormal",
            "Whether the driver reports an abnormal volume: 1 or 0",
            |volume| volume.is_abnormal.map(u64::from),
        ),
    ])
}

/// Disk use of container logs.
pub fn log_family<'a>(
    pods: impl Iterator<Item = (&'a RunningPod, &'a PodFilesReading)>,
) -> Vec<MetricFamily> {
    let series = pods.flat_map(|(pod, files)| {
        files.logs.iter().map(move |(container, used)| {
            let labels: Labels = vec![
                ("container", container.clone()),
                ("namespace", pod.full_name.namespace.clone()),
                ("pod", pod.full_name.name.clone()),
                ("uid", pod.uid.to_string()),
            ];
            plain(labels, count(used.bytes))
        })
    });
    in_order(vec![gauge(
        "kubelet_container_log_filesystem_used_bytes",
        "Bytes of a container's logs",
        series,
    )])
}
