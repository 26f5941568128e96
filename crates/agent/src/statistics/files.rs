//! Disk use of logs and volumes of pods.
//!
//! Logs are few files and measured each time. Volumes are measured once per period, with limits: one that takes too long keeps its
//! last values, and one that hangs is skipped for some time.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use decide::statistics::locations::{Measure, VolumeLocation, pod_files, volume_locations};
use decide::statistics::readings::RunningPod;
use decide::statistics::summary::{PodFilesReading, VolumeReading};
use model::usage::{DiskUse, FilesystemRoom};
use model::{EventSubject, EventType, PodUid, RecordedEvent};
use tokio::time::Instant;

use super::StatisticsDeps;
use super::driver_side::{DriverAnswer, read_from_driver};

/// Time limit for one volume.
const VOLUME_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a driver, which may call a remote service.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(4);
/// Time limit for all volumes of one request.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a volume that hangs is skipped.
const SKIP_AFTER_HANG: Duration = Duration::from_secs(600);

/// Cached disk use of pods.
#[derive(Debug, Default)]
pub(super) struct Files {
    volumes: HashMap<PodUid, (Instant, Vec<VolumeReading>)>,
    stuck: HashMap<PathBuf, Instant>,
}

impl Files {
    /// The disk use of these pods.
    pub(super) async fn of(
        &mut self,
        deps: &StatisticsDeps,
        pods: &[RunningPod],
    ) -> BTreeMap<PodUid, PodFilesReading> {
        self.volumes.retain(|uid, _| deps.observer.last(uid).is_some());
        self.stuck.retain(|_, since| since.elapsed() < SKIP_AFTER_HANG);
        let mut files = logs(deps, pods).await;
        if let Some(period) = deps.settings.volume_period {
            let until = Instant::now() + TOTAL_TIMEOUT;
            for pod in pods {
                let old = self.volumes.get(&pod.uid).is_none_or(|(at, _)| at.elapsed() >= period);
                if old && Instant::now() < until {
                    let found = self.measure(deps, pod).await;
                    self.volumes.insert(pod.uid.clone(), (Instant::now(), found));
                }
            }
        }
        for (uid, files) in &mut files {
            files.volumes = self.volumes.get(uid).map(|(_, found)| found.clone()).unwrap_or_default();
        }
        files
    }

    async fn measure(&mut self, deps: &StatisticsDeps, pod: &RunningPod) -> Vec<VolumeReading> {
        let Some(desired) = deps.desired.get(&pod.uid) else { return Vec::new() };
        let claimed = deps.claims.as_ref().map(|claims| claims.cached(&pod.uid)).unwrap_or_default();
        let mut found = Vec::new();
        for place in volume_locations(&desired, &deps.node, &claimed) {
            let name = place.name.clone();
            match self.measure_one(deps, pod, place).await {
                Some(reading) => found.push(reading),
                // The last values are better than none.
                None => found.extend(self.before(&pod.uid, &name)),
            }
        }
        found
    }

    async fn measure_one(
        &mut self,
        deps: &StatisticsDeps,
        pod: &RunningPod,
        place: VolumeLocation,
    ) -> Option<VolumeReading> {
        if self.stuck.contains_key(&place.path) {
            return None;
        }
        let begun = Instant::now();
        let source = match &place.measure {
            Measure::Files => "du",
            Measure::Filesystem => "statfs",
            Measure::Device => "block",
            Measure::Driver { driver, .. } | Measure::DrivenDevice { driver, .. } => driver.as_str(),
        };
        let reading = match self.driver_statistics(deps, pod, &place).await {
            Some(answer) => answer,
            None => self.look(deps, &place).await,
        };
        deps.metrics.storage.measuring.observe([source], begun.elapsed());
        reading
    }

    /// Statistics from the driver of a volume; the outer `None` means that only the kernel can be used.
    async fn driver_statistics(
        &mut self,
        deps: &StatisticsDeps,
        pod: &RunningPod,
        place: &VolumeLocation,
    ) -> Option<Option<VolumeReading>> {
        let (driver, handle) = match &place.measure {
            Measure::Driver { driver, handle } | Measure::DrivenDevice { driver, handle } => (driver, handle),
            Measure::Files | Measure::Filesystem | Measure::Device => return None,
        };
        let drivers = deps.drivers.as_ref()?;
        let Ok(driver) = drivers.get(driver) else { return Some(None) };
        let asked = read_from_driver(&*driver, handle, &place.path);
        match tokio::time::timeout(DRIVER_TIMEOUT, asked).await {
            Ok(DriverAnswer::Figures(statistics)) => {
                let is_abnormal = statistics.is_abnormal.filter(|_| deps.settings.volume_health);
                if is_abnormal == Some(true) {
                    record_abnormal_volume(deps, pod, &place.name, &statistics.message);
                }
                let reading = reading(deps, place, statistics.room, Some(statistics.used));
                Some(Some(VolumeReading { is_abnormal, ..reading }))
            }
            Ok(DriverAnswer::NotCounting) => None,
            Ok(DriverAnswer::Nothing) => Some(None),
            Err(_) => {
                self.skip_for_some_time(place);
                Some(None)
            }
        }
    }

    fn skip_for_some_time(&mut self, place: &VolumeLocation) {
        tracing::warn!(path = %place.path.display(), "volume does not respond, skipping it for some time");
        self.stuck.insert(place.path.clone(), Instant::now());
    }

    async fn look(&mut self, deps: &StatisticsDeps, place: &VolumeLocation) -> Option<VolumeReading> {
        let room = async {
            match place.measure {
                Measure::Files | Measure::Filesystem | Measure::Driver { .. } => {
                    deps.disks.rooms(vec![place.path.clone()]).await.into_iter().next()?
                }
                Measure::Device => {
                    let capacity = deps.disks.device_size(&place.path).await?;
                    Some(FilesystemRoom { capacity, ..FilesystemRoom::default() })
                }
                // Only its driver has the values.
                Measure::DrivenDevice { .. } => None,
            }
        };
        let Ok(room) = tokio::time::timeout(VOLUME_TIMEOUT, room).await else {
            self.skip_for_some_time(place);
            return None;
        };
        let room = room?;
        let used = match place.measure {
            Measure::Files => Some(deps.disks.tree(&place.path, VOLUME_TIMEOUT).await?),
            Measure::Filesystem | Measure::Driver { .. } | Measure::Device | Measure::DrivenDevice { .. } => {
                None
            }
        };
        Some(reading(deps, place, room, used))
    }

    fn before(&self, uid: &PodUid, name: &str) -> Option<VolumeReading> {
        let (_, volumes) = self.volumes.get(uid)?;
        volumes.iter().find(|volume| volume.name == name).cloned()
    }
}

fn reading(
    deps: &StatisticsDeps,
    place: &VolumeLocation,
    room: FilesystemRoom,
    used: Option<DiskUse>,
) -> VolumeReading {
    let VolumeLocation { name, claim, is_local, .. } = place.clone();
    VolumeReading { name, claim, time: deps.clock.now(), room, used, is_abnormal: None, is_local }
}

/// Upstream's event for an abnormal volume.
fn record_abnormal_volume(deps: &StatisticsDeps, pod: &RunningPod, volume: &str, message: &str) {
    let (uid, full_name) = (pod.uid.clone(), pod.full_name.clone());
    let subject = EventSubject::Pod { uid, full_name, field_path: String::new() };
    let (message, now) = (format!("Volume {volume}: {message}"), deps.clock.now());
    let reason = "VolumeConditionAbnormal";
    deps.events.record(RecordedEvent::new(subject, EventType::Warning, reason, message, now));
}

/// Measures container logs and the other files of a pod.
async fn logs(deps: &StatisticsDeps, pods: &[RunningPod]) -> BTreeMap<PodUid, PodFilesReading> {
    let mut paths = Vec::new();
    for pod in pods {
        let places = pod_files(&pod.uid, &pod.full_name, &deps.node);
        paths.extend(pod.containers.iter().map(|container| places.logs.join(&container.name)));
        paths.extend([places.logs, places.hosts]);
    }
    let mut found = deps.disks.files_in(paths).await.into_iter();
    let mut files = BTreeMap::new();
    for pod in pods {
        let mut next = || found.next().flatten();
        let logs = pod.containers.iter().filter_map(|container| Some((container.name.clone(), next()?)));
        let logs: BTreeMap<String, DiskUse> = logs.collect();
        let others = next().unwrap_or_default() + next().unwrap_or_default();
        files.insert(pod.uid.clone(), PodFilesReading { logs, others, volumes: Vec::new() });
    }
    files
}
