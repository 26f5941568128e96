//! CSI volumes, on top of all other volumes.
//!
//! The records on disk (`vol_data.json`) are the journal: a record is written before the driver is called and removed when the driver
//! has undone everything, so that the agent can continue or clean up after it was killed at any point. One operation runs at a time
//! per volume; a driver that hangs blocks only the pods that use its volume.

mod attach;
mod attached_status;
mod growth;
mod labels;
mod secrets;
mod set_up;
mod tear_down;
mod volume_states;

use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{ClaimedSize, CsiVolume, FlexVolume, PodUid, VolumeLabel};
use ports::api::volumes::ApiVolumes;
use ports::clock::Clock;
use ports::host::csi_folders::CsiFolders;
use ports::host::pod_volumes::{
    MountReport, PlannedVolume, PodVolumes, Progress, SubPath, VolumeError, VolumePlan, VolumeResult,
};
use ports::served::event_recorder::EventRecorder;
use timing::{KeyedLock, KeyedLockGuard};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::tokens::Tokens;
use crate::metrics::Metrics;
use crate::node::node_view::{NodeView, wait_until_known};
use crate::volumes::claims::Claims;
use crate::volumes::csi_drivers::CsiDrivers;
use growth::Growable;
use volume_states::VolumeStates;

const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

pub struct CsiVolumesDeps {
    pub others: Arc<dyn PodVolumes>,
    pub folders: Arc<dyn CsiFolders>,
    pub drivers: Arc<CsiDrivers>,
    pub api: Arc<dyn ApiVolumes>,
    pub claims: Arc<Claims>,
    pub tokens: Arc<Tokens>,
    pub node_view: watch::Receiver<NodeView>,
    /// Reported in the node's status.
    pub in_use: watch::Sender<Option<Vec<String>>>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub node: String,
}

/// Implements [`PodVolumes`] with CSI.
pub struct CsiVolumes {
    deps: CsiVolumesDeps,
    done: Mutex<VolumeStates>,
    locks: KeyedLock<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    driver: String,
    handle: String,
}

impl Key {
    fn of(volume: &CsiVolume) -> Self {
        Self { driver: volume.driver.clone(), handle: volume.handle.clone() }
    }
}

impl CsiVolumes {
    #[must_use]
    pub fn new(deps: CsiVolumesDeps) -> Self {
        Self { deps, done: Mutex::default(), locks: KeyedLock::default() }
    }

    async fn lock(&self, key: &Key) -> VolumeResult<KeyedLockGuard<Key>> {
        self.locks.acquire(key, LOCK_TIMEOUT).await.ok_or(VolumeError::InProgress)
    }

    fn with<T>(&self, act: impl FnOnce(&mut VolumeStates) -> T) -> T {
        act(&mut self.done.lock())
    }

    fn operated<T>(&self, operation: &str, driver: &str, begun: Instant, done: &Result<T, VolumeError>) {
        let plugin = format!("kubernetes.io/csi:{driver}");
        self.deps.metrics.storage.operated(operation, &plugin, begun.elapsed(), done.is_err());
    }

    /// Reports the volumes in use. While records of an earlier run cannot be read, the volumes that it reported count as in use; until
    /// the API server has returned those, nothing is reported.
    fn report(&self) {
        if self.with(|done| done.may_miss_volumes) {
            let view = self.deps.node_view.borrow();
            let Some(node) = view.node() else { return };
            let shown = node.status.as_ref().and_then(|status| status.volumes_in_use.as_ref());
            self.with(|done| done.keep_in_use(shown.into_iter().flatten()));
        }
        let names: Vec<String> = self.with(|done| done.in_use.iter().cloned().collect());
        self.deps.in_use.send_if_modified(|published| {
            let is_new = published.as_ref() != Some(&names);
            *published = Some(names);
            is_new
        });
    }
}

#[async_trait]
impl PodVolumes for CsiVolumes {
    async fn set_up(&self, uid: &PodUid, volume: &PlannedVolume, progress: &Progress) -> VolumeResult {
        let settled = self.with_settled_label(uid, volume).await?;
        let volume = settled.as_ref().unwrap_or(volume);
        match &volume.plan {
            VolumePlan::Local { source, read_only, .. } => {
                self.deps.others.set_up(uid, volume, progress).await?;
                let Some(claimed) = &source.claimed else { return Ok(()) };
                let ClaimedSize { name, size, pod } = &**claimed;
                let plugin = "kubernetes.io/local-volume";
                self.grow_plain(uid, volume, &Growable { plugin, name, size, pod, read_only: *read_only })
                    .await
            }
            VolumePlan::Iscsi(disk) => {
                self.wait_listed(uid, volume, &disk.attachment).await?;
                self.deps.others.set_up(uid, volume, progress).await
            }
            VolumePlan::Fc(disk) => {
                self.wait_listed(uid, volume, &disk.attachment).await?;
                self.deps.others.set_up(uid, volume, progress).await
            }
            VolumePlan::Flex(plan) => {
                let volume = PlannedVolume { plan: self.as_attached(uid, plan), ..volume.clone() };
                self.deps.others.set_up(uid, &volume, progress).await?;
                let Some(size) = &plan.size else { return Ok(()) };
                let FlexVolume { name, driver, pod, read_only, .. } = &**plan;
                let grows = Growable { plugin: driver, name, size, pod, read_only: *read_only };
                self.grow_plain(uid, &volume, &grows).await
            }
            VolumePlan::Csi(plan) => self.set_up_csi(uid, plan, volume, progress).await,
            VolumePlan::EmptyDir { .. }
            | VolumePlan::MemoryDir { .. }
            | VolumePlan::HugePagesDir { .. }
            | VolumePlan::Files { .. }
            | VolumePlan::Nfs { .. }
            | VolumePlan::Device { .. }
            | VolumePlan::Image { .. }
            | VolumePlan::HostPath { .. } => self.deps.others.set_up(uid, volume, progress).await,
        }
    }

    async fn is_set_up(&self, volume: &PlannedVolume) -> VolumeResult<bool> {
        self.deps.others.is_set_up(volume).await
    }

    async fn mounted_label(&self, uid: &PodUid, volume: &PlannedVolume) -> VolumeResult<Option<VolumeLabel>> {
        self.known_label(uid, volume).await
    }

    async fn grow(&self, uid: &PodUid, volume: &PlannedVolume, sizes: (i64, i64)) -> VolumeResult {
        self.deps.others.grow(uid, volume, sizes).await
    }

    async fn bind_sub_path(&self, uid: &PodUid, part: &SubPath) -> VolumeResult<PathBuf> {
        self.deps.others.bind_sub_path(uid, part).await
    }

    async fn reconcile_mounts(&self) -> VolumeResult<MountReport> {
        let report = self.deps.others.reconcile_mounts().await?;
        self.restore().await?;
        Ok(report)
    }

    async fn tear_down(&self, uid: &PodUid) -> VolumeResult {
        // From now on only its mounts count, not its label requests.
        self.with(|done| done.labels.remove_pod(uid));
        // subPath mounts would keep the volume busy.
        self.deps.others.tear_down(uid).await?;
        self.with(|done| done.remove_attached(uid));
        self.report();
        self.tear_down_csi(uid).await?;
        self.deps.claims.release(uid).await;
        Ok(())
    }
}

impl CsiVolumes {
    /// Reads the records of an earlier run, whose volumes must not be detached.
    ///
    /// # Errors
    /// When the records cannot be listed. An unreadable record is logged; a running pod writes it again.
    pub async fn restore(&self) -> VolumeResult {
        let found = self.deps.folders.all().await?;
        for volume in &found.volumes {
            self.with(|done| done.uses(&volume.record));
        }
        if !found.unreadable.is_empty() {
            self.with(|done| done.may_miss_volumes = true);
        }
        for record in found.unreadable {
            let (pod, volume, error) = (record.uid, record.spec_name, VolumeError::from(record.error));
            tracing::warn!(%pod, %volume, error = %error.text(), "failed to read the record of a CSI volume");
        }
        self.report();
        Ok(())
    }
}

fn refused(words: impl Into<String>) -> VolumeError {
    VolumeError::Refused(words.into())
}

/// Reads the records of an earlier run, with retries, because an unreported volume may be detached. Then keeps the checkpoint of
/// claims up to date.
pub async fn begin(volumes: Arc<CsiVolumes>, cancel: CancellationToken) {
    while let Err(error) = volumes.restore().await {
        tracing::warn!(error = %error.text(), "failed to read the records of CSI volumes, retrying");
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(LOCK_TIMEOUT) => {}
        }
    }
    if volumes.with(|done| done.may_miss_volumes) {
        let mut views = volumes.deps.node_view.clone();
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = wait_until_known(&mut views) => volumes.report(),
        }
    }
    volumes.deps.claims.keep(cancel).await;
}
