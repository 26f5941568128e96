//! Volumes of CSI drivers, on top of all others.
//!
//! The records on disk (`vol_data.json`) are the journal: one is written before the driver is called and removed when the
//! driver has undone everything, so that a killed agent's successor goes on or undoes, wherever the kill came. One
//! operation on a volume at a time; a driver that hangs holds up the pods that use its volume, nobody else.

mod attach;
mod attached_status;
mod done;
mod growth;
mod labels;
mod secrets;
mod set_up;
mod tear_down;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use model::{ClaimedSize, CsiVolume, FlexVolume, PodUid, VolumeLabel};
use ports::api::volumes::ApiVolumes;
use ports::clock::Clock;
use ports::csi_folders::CsiFolders;
use ports::event_recorder::EventRecorder;
use ports::pod_volumes::{
    MountReport, PlannedVolume, PodVolumes, Progress, SubPath, VolumeError, VolumePlan,
};
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::claims::Claims;
use crate::csi_drivers::CsiDrivers;
use crate::metrics::Metrics;
use crate::node_view::{NodeView, known};
use crate::tokens::Tokens;
use done::Done;
use growth::Growable;

/// How long an operation waits for an earlier one on the same volume.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the service needs.
pub struct Parts {
    /// All other volumes.
    pub others: Arc<dyn PodVolumes>,
    /// Folders and records.
    pub folders: Arc<dyn CsiFolders>,
    /// Drivers.
    pub drivers: Arc<CsiDrivers>,
    /// Attachments, secrets, claims.
    pub api: Arc<dyn ApiVolumes>,
    /// Resolved claims, forgotten with their pods.
    pub claims: Arc<Claims>,
    /// Tokens for drivers that ask for them.
    pub tokens: Arc<Tokens>,
    /// The node as the API server shows it.
    pub node_view: watch::Receiver<NodeView>,
    /// Volumes that must not be detached, for the node's status.
    pub in_use: watch::Sender<Option<Vec<String>>>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where the time of operations is counted.
    pub metrics: Arc<Metrics>,
    /// Name of the node.
    pub node: String,
}

/// [`PodVolumes`] that knows CSI.
pub struct CsiVolumes {
    parts: Parts,
    done: Mutex<Done>,
    turns: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>,
}

/// A volume by its driver and handle.
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
    /// Over these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts, done: Mutex::default(), turns: Mutex::default() }
    }

    /// The right to work on a volume.
    async fn turn(&self, key: &Key) -> Result<OwnedMutexGuard<()>, VolumeError> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(key.clone()).or_default().clone()
        };
        tokio::time::timeout(PATIENCE, turn.lock_owned()).await.map_err(|_| VolumeError::InProgress)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Done) -> T) -> T {
        act(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts an operation on a volume of a driver.
    fn operated<T>(&self, operation: &str, driver: &str, begun: Instant, done: &Result<T, VolumeError>) {
        let plugin = format!("kubernetes.io/csi:{driver}");
        self.parts.metrics.storage.operated(operation, &plugin, begun.elapsed(), done.is_err());
    }

    /// Tells the node's status which volumes are in use. While records of an earlier agent cannot be read, whatever that
    /// one told of is in use as well, and until the API server has shown it nothing is told.
    fn report(&self) {
        if self.with(|done| done.is_unsure()) {
            let view = self.parts.node_view.borrow();
            let Some(node) = view.node() else { return };
            let shown = node.status.as_ref().and_then(|status| status.volumes_in_use.as_ref());
            self.with(|done| done.keep_in_use(shown.into_iter().flatten()));
        }
        let names = self.with(|done| done.in_use());
        self.parts.in_use.send_if_modified(|told| {
            let is_new = told.as_ref() != Some(&names);
            *told = Some(names);
            is_new
        });
    }
}

#[async_trait]
impl PodVolumes for CsiVolumes {
    async fn set_up(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        progress: &Progress,
    ) -> Result<(), VolumeError> {
        let settled = self.with_settled_label(uid, volume).await?;
        let volume = settled.as_ref().unwrap_or(volume);
        match &volume.plan {
            VolumePlan::Local { source, read_only, .. } => {
                self.parts.others.set_up(uid, volume, progress).await?;
                let Some(claimed) = &source.claimed else { return Ok(()) };
                let ClaimedSize { name, size, pod } = &**claimed;
                let plugin = "kubernetes.io/local-volume";
                self.grow_plain(uid, volume, &Growable { plugin, name, size, pod, read_only: *read_only })
                    .await
            }
            VolumePlan::Iscsi(disk) => {
                self.wait_listed(uid, volume, &disk.attachment).await?;
                self.parts.others.set_up(uid, volume, progress).await
            }
            VolumePlan::Fc(disk) => {
                self.wait_listed(uid, volume, &disk.attachment).await?;
                self.parts.others.set_up(uid, volume, progress).await
            }
            VolumePlan::Flex(plan) => {
                let volume = PlannedVolume { plan: self.as_attached(uid, plan), ..volume.clone() };
                self.parts.others.set_up(uid, &volume, progress).await?;
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
            | VolumePlan::HostPath { .. } => self.parts.others.set_up(uid, volume, progress).await,
        }
    }

    async fn is_there(&self, volume: &PlannedVolume) -> Result<bool, VolumeError> {
        self.parts.others.is_there(volume).await
    }

    async fn mounted_label(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
    ) -> Result<Option<VolumeLabel>, VolumeError> {
        self.known_label(uid, volume).await
    }

    async fn grow(&self, uid: &PodUid, volume: &PlannedVolume, sizes: (i64, i64)) -> Result<(), VolumeError> {
        self.parts.others.grow(uid, volume, sizes).await
    }

    async fn bind_sub_path(&self, uid: &PodUid, part: &SubPath) -> Result<PathBuf, VolumeError> {
        self.parts.others.bind_sub_path(uid, part).await
    }

    async fn reconcile_mounts(&self) -> Result<MountReport, VolumeError> {
        let report = self.parts.others.reconcile_mounts().await?;
        self.recall().await?;
        Ok(report)
    }

    async fn tear_down(&self, uid: &PodUid) -> Result<(), VolumeError> {
        // What it wanted counts no more, only what is mounted.
        self.with(|done| done.labels.leaves(uid));
        // Parts of a driver's volume that are bound elsewhere would keep it busy.
        self.parts.others.tear_down(uid).await?;
        self.with(|done| done.leaves_attached(uid));
        self.report();
        self.tear_down_csi(uid).await?;
        self.parts.claims.release(uid).await;
        Ok(())
    }
}

impl CsiVolumes {
    /// Reads back which volumes pods have from an earlier agent: they must not be detached.
    ///
    /// # Errors
    /// When the records cannot be looked for. One that cannot be read is told of: its pod writes it anew if it still runs.
    pub async fn recall(&self) -> Result<(), VolumeError> {
        let found = self.parts.folders.all().await?;
        for volume in &found.volumes {
            self.with(|done| done.uses(&volume.record));
        }
        if !found.unreadable.is_empty() {
            self.with(Done::is_missing_records);
        }
        for record in found.unreadable {
            let (pod, volume, error) = (record.uid, record.spec_name, VolumeError::from(record.error));
            tracing::warn!(%pod, %volume, error = %error.text(), "what is written down of a driver's volume cannot be read");
        }
        self.report();
        Ok(())
    }
}

/// A failure in words.
fn refused(words: impl Into<String>) -> VolumeError {
    VolumeError::Refused(words.into())
}

/// Reads back what an earlier agent left, trying until that succeeds: a volume that nobody knows of may be detached. Then
/// sees to it that what is known of claims is kept.
pub async fn begin(volumes: Arc<CsiVolumes>, cancel: CancellationToken) {
    while let Err(error) = volumes.recall().await {
        tracing::warn!(error = %error.text(), "what is known of volumes of drivers cannot be read; trying again");
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(PATIENCE) => {}
        }
    }
    if volumes.with(|done| done.is_unsure()) {
        let mut views = volumes.parts.node_view.clone();
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = known(&mut views) => volumes.report(),
        }
    }
    volumes.parts.claims.keep(cancel).await;
}
