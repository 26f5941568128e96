//! Measures volume operations and counts volumes.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::{PlannedVolume, PodUid, SubPath, VolumeLabel, VolumePlan};
use ports::host::pod_volumes::{MountReport, PodVolumes, Progress, VolumeResult};
use tokio::time::Instant;

use crate::metrics::{Collect, Metrics, Page, to_gauge};

/// Delegates to `inner`, measures mounts and unmounts, and counts desired and mounted volumes.
pub struct MeteredVolumes {
    inner: Arc<dyn PodVolumes>,
    metrics: Arc<Metrics>,
    tracked: Mutex<BTreeMap<PodUid, BTreeMap<String, TrackedVolume>>>,
}

struct TrackedVolume {
    plugin: String,
    is_device: bool,
    wanted_since: Instant,
    /// False once the pod is being torn down.
    is_wanted: bool,
    is_mounted: bool,
}

impl MeteredVolumes {
    #[must_use]
    pub fn new(inner: Arc<dyn PodVolumes>, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics, tracked: Mutex::default() }
    }

    fn track_desired(&self, uid: &PodUid, volume: &PlannedVolume) {
        let mut tracked = self.tracked.lock();
        let volumes = tracked.entry(uid.clone()).or_default();
        let tracked = volumes.entry(volume.name.clone()).or_insert_with(|| TrackedVolume {
            plugin: plugin_name(&volume.plan),
            is_device: volume.plan.is_device(),
            wanted_since: Instant::now(),
            is_wanted: true,
            is_mounted: false,
        });
        tracked.is_wanted = true;
    }

    /// Counts a setup, unless the volume was already set up. Projected volumes count each time.
    fn set_up_ended(&self, uid: &PodUid, volume: &PlannedVolume, begun: Instant, failed: bool) {
        let mut tracked = self.tracked.lock();
        let Some(tracked) = tracked.get_mut(uid).and_then(|volumes| volumes.get_mut(&volume.name)) else {
            return;
        };
        let again = tracked.is_mounted;
        if again && !failed && !matches!(volume.plan, VolumePlan::Files { .. }) {
            return;
        }
        let storage = &self.metrics.storage;
        let operation = if tracked.is_device { "map_volume" } else { "volume_mount" };
        storage.operated(operation, &tracked.plugin, begun.elapsed(), failed);
        if !failed {
            let since = if again { begun } else { tracked.wanted_since };
            storage.mounted(&tracked.plugin, since.elapsed());
            tracked.is_mounted = true;
        }
    }

    fn tear_down_ended(&self, uid: &PodUid, begun: Instant, failed: bool) {
        let mut tracked = self.tracked.lock();
        for volume in
            tracked.get(uid).into_iter().flat_map(BTreeMap::values).filter(|volume| volume.is_mounted)
        {
            let operation = if volume.is_device { "unmap_volume" } else { "volume_unmount" };
            self.metrics.storage.operated(operation, &volume.plugin, begun.elapsed(), failed);
        }
        if !failed {
            tracked.remove(uid);
        }
    }
}

#[async_trait]
impl PodVolumes for MeteredVolumes {
    async fn set_up(&self, uid: &PodUid, volume: &PlannedVolume, progress: &Progress) -> VolumeResult {
        self.track_desired(uid, volume);
        let begun = Instant::now();
        let done = self.inner.set_up(uid, volume, progress).await;
        self.set_up_ended(uid, volume, begun, done.is_err());
        done
    }

    async fn is_set_up(&self, volume: &PlannedVolume) -> VolumeResult<bool> {
        self.inner.is_set_up(volume).await
    }

    async fn mounted_label(&self, uid: &PodUid, volume: &PlannedVolume) -> VolumeResult<Option<VolumeLabel>> {
        self.inner.mounted_label(uid, volume).await
    }

    async fn grow(&self, uid: &PodUid, volume: &PlannedVolume, sizes: (i64, i64)) -> VolumeResult {
        self.inner.grow(uid, volume, sizes).await
    }

    async fn bind_sub_path(&self, uid: &PodUid, part: &SubPath) -> VolumeResult<PathBuf> {
        self.inner.bind_sub_path(uid, part).await
    }

    async fn reconcile_mounts(&self) -> VolumeResult<MountReport> {
        self.inner.reconcile_mounts().await
    }

    async fn tear_down(&self, uid: &PodUid) -> VolumeResult {
        for volume in self.tracked.lock().get_mut(uid).into_iter().flat_map(BTreeMap::values_mut) {
            volume.is_wanted = false;
        }
        let begun = Instant::now();
        let done = self.inner.tear_down(uid).await;
        self.tear_down_ended(uid, begun, done.is_err());
        done
    }
}

impl Collect for MeteredVolumes {
    fn collect(&self, page: &mut Page) {
        let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
        for volume in self.tracked.lock().values().flat_map(BTreeMap::values) {
            let states =
                [(volume.is_mounted, "actual_state_of_world"), (volume.is_wanted, "desired_state_of_world")];
            for (_, state) in states.into_iter().filter(|(is_so, _)| *is_so) {
                *counts.entry((volume.plugin.clone(), state)).or_default() += 1;
            }
        }
        let rows =
            counts.iter().map(|((plugin, state), count)| ([plugin.as_str(), *state], to_gauge(*count)));
        let about = ("volume_manager_total_volumes", "Desired and mounted volumes of pods");
        page.gauges(about, ["plugin_name", "state"], rows);
    }
}

/// Upstream's plugin name of a volume, which is also in its folder name.
fn plugin_name(plan: &VolumePlan) -> String {
    match plan {
        VolumePlan::Csi(volume) => format!("kubernetes.io/csi:{}", volume.driver),
        VolumePlan::Iscsi(_) => "kubernetes.io/iscsi".to_owned(),
        VolumePlan::Fc(_) => "kubernetes.io/fc".to_owned(),
        VolumePlan::Flex(volume) => volume.driver.clone(),
        VolumePlan::HostPath { .. } => "kubernetes.io/host-path".to_owned(),
        VolumePlan::Image { .. } => "kubernetes.io/image".to_owned(),
        VolumePlan::EmptyDir { path }
        | VolumePlan::MemoryDir { path, .. }
        | VolumePlan::HugePagesDir { path, .. }
        | VolumePlan::Files { path, .. }
        | VolumePlan::Nfs { path, .. }
        | VolumePlan::Local { path, .. }
        | VolumePlan::Device { path, .. } => of_folder(path).unwrap_or_else(|| "N/A".to_owned()),
    }
}

/// `…/volumes/kubernetes.io~empty-dir/data` → `kubernetes.io/empty-dir`.
fn of_folder(path: &Path) -> Option<String> {
    let mut parts = path.components().rev().filter_map(|part| part.as_os_str().to_str());
    parts.find(|part| part.starts_with("kubernetes.io~")).map(|part| part.replacen('~', "/", 1))
}

#[cfg(test)]
mod tests {
    use ports::host::pod_volumes::VolumeError;

    use super::*;
    use crate::metrics::Format;

    struct Fails(Mutex<usize>);

    #[async_trait]
    impl PodVolumes for Fails {
        async fn set_up(&self, _: &PodUid, _: &PlannedVolume, _: &Progress) -> VolumeResult {
            let mut left = self.0.lock();
            let fails = *left > 0;
            *left = left.saturating_sub(1);
            if fails { Err(VolumeError::InProgress) } else { Ok(()) }
        }

        async fn is_set_up(&self, _: &PlannedVolume) -> VolumeResult<bool> {
            Ok(false)
        }

        async fn mounted_label(&self, _: &PodUid, _: &PlannedVolume) -> VolumeResult<Option<VolumeLabel>> {
            Ok(None)
        }

        async fn grow(&self, _: &PodUid, _: &PlannedVolume, _: (i64, i64)) -> VolumeResult {
            Ok(())
        }

        async fn bind_sub_path(&self, _: &PodUid, _: &SubPath) -> VolumeResult<PathBuf> {
            Err(VolumeError::InProgress)
        }

        async fn reconcile_mounts(&self) -> VolumeResult<MountReport> {
            Ok(MountReport::default())
        }

        async fn tear_down(&self, _: &PodUid) -> VolumeResult {
            Ok(())
        }
    }

    fn page(volumes: &MeteredVolumes) -> String {
        let mut page = Page::new(Format::Text);
        volumes.collect(&mut page);
        page.into_text() + &volumes.metrics.encode(Format::Text)
    }

    #[tokio::test]
    async fn counts_volumes_from_request_to_teardown() {
        let metrics = Arc::new(Metrics::new());
        let volumes = MeteredVolumes::new(Arc::new(Fails(Mutex::new(1))), metrics);
        let uid = PodUid::from("u1");
        let path = "/root/pods/u1/volumes/kubernetes.io~empty-dir/data".into();
        let volume = PlannedVolume {
            name: "data".to_owned(),
            plan: VolumePlan::EmptyDir { path },
            fs_group: None,
            label: model::VolumeLabel::None,
        };
        let progress = Progress::default();
        volumes.set_up(&uid, &volume, &progress).await.unwrap_err();
        let text = page(&volumes);
        let expected = "volume_manager_total_volumes{plugin_name=\"kubernetes.io/empty-dir\",state=\"desired_state_of_world\"} 1\n";
        assert!(text.contains(expected) && !text.contains("actual_state_of_world"), "{text}");
        for _ in 0..3 {
            volumes.set_up(&uid, &volume, &progress).await.unwrap();
        }
        let text = page(&volumes);
        let count = |operation: &str, status: &str, count: usize| {
            format!(
                "storage_operation_duration_seconds_count{{migrated=\"false\",operation_name=\"{operation}\",\
                 status=\"{status}\",volume_plugin=\"kubernetes.io/empty-dir\"}} {count}\n"
            )
        };
        assert!(text.contains("state=\"actual_state_of_world\"} 1\n"), "{text}");
        assert!(text.contains(&count("volume_mount", "fail-unknown", 1)), "{text}");
        // A volume that is already set up is not counted.
        assert!(text.contains(&count("volume_mount", "success", 1)), "{text}");
        volumes.tear_down(&uid).await.unwrap();
        let text = page(&volumes);
        assert!(text.contains(&count("volume_unmount", "success", 1)), "{text}");
        assert!(!text.contains("volume_manager_total_volumes"), "{text}");
    }

    #[test]
    fn plugin_name_comes_from_the_folder() {
        let device = VolumePlan::Device {
            path: "/root/pods/u/volumeDevices/kubernetes.io~local-volume/pv".into(),
            source: "/dev/sda".into(),
            read_only: false,
        };
        assert_eq!(plugin_name(&device), "kubernetes.io/local-volume");
        assert_eq!(plugin_name(&VolumePlan::EmptyDir { path: "/elsewhere".into() }), "N/A");
    }
}
