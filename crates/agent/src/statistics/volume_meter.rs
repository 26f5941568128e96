//! Measures the volumes of one pod, each with a time limit. A volume that hangs is skipped for some time.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use decide::statistics::locations::{Measure, VolumeLocation, volume_locations};
use decide::statistics::summary::VolumeReading;
use model::usage::{DiskUse, FilesystemRoom, TreeUse};
use model::{EventSubject, EventType, Pod, PodUid, RecordedEvent};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::StatisticsDeps;
use super::driver_side::{DriverAnswer, read_from_driver};
use super::volume_usage::PodVolumes;

/// Timeout of a file system that should answer at once.
const FILESYSTEM_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a driver, which may call a remote service.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(4);
/// How long the files of one volume are counted: enough for some millions.
const COUNTING_LIMIT: Duration = Duration::from_secs(5);
/// After this time counting does not only take long, but hangs.
const COUNTING_TIMEOUT: Duration = Duration::from_secs(8);

/// How long a volume that hangs is skipped.
const SKIP_AFTER_HANG: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct VolumeMeter {
    /// Volumes that hang, and since when.
    hanging: Mutex<HashMap<PathBuf, Instant>>,
}

/// Figures of one volume.
struct Figures {
    reading: VolumeReading,
    is_complete: bool,
}

impl VolumeMeter {
    /// Volumes that could not be measured keep their readings in `last`.
    pub(super) async fn measure(
        &self,
        deps: &StatisticsDeps,
        uid: &PodUid,
        last: Vec<VolumeReading>,
    ) -> PodVolumes {
        let Some(pod) = deps.desired.get(uid) else { return PodVolumes::default() };
        let claimed = deps.claims.as_ref().map(|claims| claims.cached(uid)).unwrap_or_default();
        let mut volumes = PodVolumes::default();
        for place in volume_locations(&pod, &deps.node, &claimed) {
            match self.measure_volume(deps, &pod, &place).await {
                Some(figures) => {
                    volumes.readings.push(figures.reading);
                    volumes.is_complete &= figures.is_complete || !place.is_local;
                }
                None => {
                    volumes.readings.extend(last.iter().find(|volume| volume.name == place.name).cloned());
                    volumes.is_complete &= !place.is_local || !self.is_hanging(&place);
                }
            }
        }
        volumes
    }

    async fn measure_volume(
        &self,
        deps: &StatisticsDeps,
        pod: &Pod,
        place: &VolumeLocation,
    ) -> Option<Figures> {
        if self.is_hanging(place) {
            return None;
        }
        let begun = Instant::now();
        let source = match &place.measure {
            Measure::Files => "du",
            Measure::Filesystem => "statfs",
            Measure::Device => "block",
            Measure::Driver { driver, .. } | Measure::DrivenDevice { driver, .. } => driver.as_str(),
        };
        let figures = match self.driver_statistics(deps, pod, place).await {
            Some(answer) => answer.map(|reading| Figures { reading, is_complete: true }),
            None => self.kernel_statistics(deps, place).await,
        };
        deps.metrics.storage.measuring.observe([source], begun.elapsed());
        figures
    }

    /// Statistics from the driver of a volume; the outer `None` means that only the kernel can be used.
    async fn driver_statistics(
        &self,
        deps: &StatisticsDeps,
        pod: &Pod,
        place: &VolumeLocation,
    ) -> Option<Option<VolumeReading>> {
        let (driver, handle) = match &place.measure {
            Measure::Driver { driver, handle } | Measure::DrivenDevice { driver, handle } => (driver, handle),
            Measure::Files | Measure::Filesystem | Measure::Device => return None,
        };
        let drivers = deps.drivers.as_ref()?;
        let Ok(driver) = drivers.get(driver) else { return Some(None) };
        let asked = read_from_driver(&*driver, handle, &place.path);
        match timeout(DRIVER_TIMEOUT, asked).await {
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

    async fn kernel_statistics(&self, deps: &StatisticsDeps, place: &VolumeLocation) -> Option<Figures> {
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
        let room = self.unless_hanging(place, FILESYSTEM_TIMEOUT, room).await?;
        let counted = match place.measure {
            Measure::Files => {
                let tree = deps.disks.tree(&place.path, COUNTING_LIMIT);
                Some(self.unless_hanging(place, COUNTING_TIMEOUT, tree).await?)
            }
            Measure::Filesystem | Measure::Driver { .. } | Measure::Device | Measure::DrivenDevice { .. } => {
                None
            }
        };
        let is_complete = counted.is_none_or(|tree: TreeUse| tree.is_complete);
        Some(Figures { reading: reading(deps, place, room, counted.map(|tree| tree.used)), is_complete })
    }

    async fn unless_hanging<T>(
        &self,
        place: &VolumeLocation,
        limit: Duration,
        work: impl Future<Output = Option<T>>,
    ) -> Option<T> {
        match timeout(limit, work).await {
            Ok(result) => result,
            Err(_) => {
                self.skip_for_some_time(place);
                None
            }
        }
    }

    fn skip_for_some_time(&self, place: &VolumeLocation) {
        tracing::warn!(path = %place.path.display(), "volume does not respond, skipping it for some time");
        self.hanging.lock().insert(place.path.clone(), Instant::now());
    }

    fn is_hanging(&self, place: &VolumeLocation) -> bool {
        let mut hanging = self.hanging.lock();
        hanging.retain(|_, since| since.elapsed() < SKIP_AFTER_HANG);
        hanging.contains_key(&place.path)
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
fn record_abnormal_volume(deps: &StatisticsDeps, pod: &Pod, volume: &str, message: &str) {
    let subject = EventSubject::pod(pod, String::new());
    let (message, now) = (format!("Volume {volume}: {message}"), deps.clock.now());
    let reason = "VolumeConditionAbnormal";
    deps.events.record(RecordedEvent::new(subject, EventType::Warning, reason, message, now));
}
