//! What logs and volumes of pods take.
//!
//! Logs are few files and looked at each time. Volumes are gone through once in a period, within bounds: one that takes
//! too long keeps its last figures, and one that hangs is left alone for a while.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use decide::statistics::places::{Measure, VolumePlace, pod_files, volume_places};
use decide::statistics::readings::RunningPod;
use decide::statistics::summary::{PodFilesReading, VolumeReading};
use model::usage::{DiskUse, FilesystemRoom};
use model::{EventSubject, EventType, PodUid, RecordedEvent, Timestamp};
use tokio::time::Instant;

use super::Parts;
use super::driver_side::{Told, ask};

/// Longest way through one volume.
const VOLUME_LIMIT: Duration = Duration::from_secs(2);
/// Longest wait for a driver, which may have to ask somebody far away.
const DRIVER_LIMIT: Duration = Duration::from_secs(4);
/// Longest time that one answer waits for volumes.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long a volume that hangs is left alone.
const LEFT_ALONE: Duration = Duration::from_secs(600);

/// What is known of pods' files.
#[derive(Debug, Default)]
pub(super) struct Files {
    volumes: HashMap<PodUid, (Instant, Vec<VolumeReading>)>,
    stuck: HashMap<PathBuf, Instant>,
}

impl Files {
    /// Files of these pods.
    pub(super) async fn of(
        &mut self,
        parts: &Parts,
        pods: &[RunningPod],
    ) -> BTreeMap<PodUid, PodFilesReading> {
        self.volumes.retain(|uid, _| parts.observer.last(uid).is_some());
        self.stuck.retain(|_, since| since.elapsed() < LEFT_ALONE);
        let mut files = logs(parts, pods).await;
        if let Some(period) = parts.settings.volume_period {
            let until = Instant::now() + ANSWER_LIMIT;
            for pod in pods {
                let old = self.volumes.get(&pod.uid).is_none_or(|(at, _)| at.elapsed() >= period);
                if old && Instant::now() < until {
                    let found = self.measure(parts, pod).await;
                    self.volumes.insert(pod.uid.clone(), (Instant::now(), found));
                }
            }
        }
        for (uid, files) in &mut files {
            files.volumes = self.volumes.get(uid).map(|(_, found)| found.clone()).unwrap_or_default();
        }
        files
    }

    async fn measure(&mut self, parts: &Parts, pod: &RunningPod) -> Vec<VolumeReading> {
        let Some(wanted) = parts.desired.get(&pod.uid) else { return Vec::new() };
        let claimed = parts.claims.as_ref().map(|claims| claims.known(&pod.uid)).unwrap_or_default();
        let mut found = Vec::new();
        for place in volume_places(&wanted, &parts.node, &claimed) {
            let name = place.name.clone();
            match self.measure_one(parts, pod, place).await {
                Some(reading) => found.push(reading),
                // What was known before is better than nothing.
                None => found.extend(self.before(&pod.uid, &name)),
            }
        }
        found
    }

    async fn measure_one(
        &mut self,
        parts: &Parts,
        pod: &RunningPod,
        place: VolumePlace,
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
        let reading = match self.told_by_driver(parts, pod, &place).await {
            Some(told) => told,
            None => self.look(parts, &place).await,
        };
        parts.metrics.storage.measured(source, begun.elapsed());
        reading
    }

    /// What the driver of a volume says; the outer `None` means that nobody but the kernel can be asked.
    async fn told_by_driver(
        &mut self,
        parts: &Parts,
        pod: &RunningPod,
        place: &VolumePlace,
    ) -> Option<Option<VolumeReading>> {
        let (driver, handle) = match &place.measure {
            Measure::Driver { driver, handle } | Measure::DrivenDevice { driver, handle } => (driver, handle),
            Measure::Files | Measure::Filesystem | Measure::Device => return None,
        };
        let drivers = parts.drivers.as_ref()?;
        let Ok(driver) = drivers.get(driver) else { return Some(None) };
        let asked = ask(&*driver, handle, &place.path);
        match tokio::time::timeout(DRIVER_LIMIT, asked).await {
            Ok(Told::Figures(told)) => {
                let is_abnormal = told.is_abnormal.filter(|_| parts.settings.volume_health);
                if is_abnormal == Some(true) {
                    let at = parts.clock.now();
                    parts.events.record(abnormal_volume(pod, &place.name, &told.message, at));
                }
                Some(Some(VolumeReading {
                    name: place.name.clone(),
                    claim: place.claim.clone(),
                    time: parts.clock.now(),
                    room: told.room,
                    used: Some(told.used),
                    is_abnormal,
                    is_local: place.is_local,
                }))
            }
            Ok(Told::NotCounting) => None,
            Ok(Told::Nothing) => Some(None),
            Err(_) => {
                self.leave_alone(place);
                Some(None)
            }
        }
    }

    fn leave_alone(&mut self, place: &VolumePlace) {
        tracing::warn!(path = %place.path.display(), "the volume does not answer; left alone for a while");
        self.stuck.insert(place.path.clone(), Instant::now());
    }

    async fn look(&mut self, parts: &Parts, place: &VolumePlace) -> Option<VolumeReading> {
        let room = async {
            match place.measure {
                Measure::Files | Measure::Filesystem | Measure::Driver { .. } => {
                    parts.disks.rooms(vec![place.path.clone()]).await.into_iter().next()?
                }
                Measure::Device => {
                    let capacity = parts.disks.device_size(&place.path).await?;
                    Some(FilesystemRoom { capacity, ..FilesystemRoom::default() })
                }
                // Its driver alone could know.
                Measure::DrivenDevice { .. } => None,
            }
        };
        let Ok(room) = tokio::time::timeout(VOLUME_LIMIT, room).await else {
            self.leave_alone(place);
            return None;
        };
        let room = room?;
        let used = match place.measure {
            Measure::Files => Some(parts.disks.tree(&place.path, VOLUME_LIMIT).await?),
            Measure::Filesystem | Measure::Driver { .. } | Measure::Device | Measure::DrivenDevice { .. } => {
                None
            }
        };
        Some(VolumeReading {
            name: place.name.clone(),
            claim: place.claim.clone(),
            time: parts.clock.now(),
            room,
            used,
            is_abnormal: None,
            is_local: place.is_local,
        })
    }

    fn before(&self, uid: &PodUid, name: &str) -> Option<VolumeReading> {
        let (_, volumes) = self.volumes.get(uid)?;
        volumes.iter().find(|volume| volume.name == name).cloned()
    }
}

/// Upstream's event for a volume that its driver finds not well.
fn abnormal_volume(pod: &RunningPod, volume: &str, message: &str, at: Timestamp) -> RecordedEvent {
    RecordedEvent {
        annotations: Default::default(),
        subject: EventSubject::Pod {
            uid: pod.uid.clone(),
            full_name: pod.full_name.clone(),
            field_path: String::new(),
        },
        kind: EventType::Warning,
        reason: "VolumeConditionAbnormal".to_owned(),
        message: format!("Volume {volume}: {message}"),
        at,
    }
}

/// Logs of containers, and the few files of a pod besides them.
async fn logs(parts: &Parts, pods: &[RunningPod]) -> BTreeMap<PodUid, PodFilesReading> {
    let mut paths = Vec::new();
    for pod in pods {
        let places = pod_files(&pod.uid, &pod.full_name, &parts.node);
        paths.extend(pod.containers.iter().map(|container| places.logs.join(&container.name)));
        paths.extend([places.logs, places.hosts]);
    }
    let mut found = parts.disks.files_in(paths).await.into_iter();
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
