//! Unpublishes and unstages CSI volumes.

use model::{CsiLifecycle, PodUid};
use ports::host::csi_folders::{Published, VolumeRecord};
use ports::host::pod_volumes::VolumeResult;
use ports::plugins::csi::CsiNode;
use tokio::time::Instant;

use super::{CsiVolumes, Key, refused};

impl CsiVolumes {
    /// Tears down all volumes of a pod. Continues after a failure and returns the first one.
    pub(super) async fn tear_down_csi(&self, uid: &PodUid) -> VolumeResult {
        let found = self.deps.folders.of_pod(uid).await?;
        let undone = futures::future::join_all(found.volumes.iter().map(|volume| self.undo(volume))).await;
        let unreadable = found.unreadable.into_iter().map(|record| Err(record.error.into()));
        undone.into_iter().chain(unreadable).find(Result::is_err).unwrap_or(Ok(()))
    }

    /// The record is removed last, so that an interrupted teardown is repeated.
    async fn undo(&self, volume: &Published) -> VolumeResult {
        let record = &volume.record;
        let key = Key { driver: record.driver.clone(), handle: record.handle.clone() };
        let _locked = self.lock(&key).await?;
        let driver = self.deps.drivers.get(&record.driver).map_err(|reason| {
            refused(format!("kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: {reason}"))
        })?;
        driver
            .unpublish(&record.handle, &volume.target)
            .await
            .map_err(|error| refused(format!("kubernetes.io/csi: Unmounter.TearDownAt failed: {error}")))?;
        self.with(|done| done.published.remove(&(volume.uid.clone(), record.spec_name.clone())));
        let is_last = !self.deps.folders.all().await?.is_used_by_another(volume);
        if is_last && record.lifecycle == CsiLifecycle::Persistent {
            let begun = Instant::now();
            let unstaged = self.unstage(&*driver, volume).await;
            let operation = if volume.is_block { "unmap_device" } else { "unmount_device" };
            self.operated(operation, &record.driver, begun, &unstaged);
            unstaged?;
        }
        self.deps.folders.remove(volume).await?;
        if is_last {
            self.with(|done| done.gone(&key));
            self.report();
        }
        Ok(())
    }

    pub(super) async fn unstage(&self, driver: &dyn CsiNode, volume: &Published) -> VolumeResult {
        let abilities = driver.capabilities().await;
        let abilities = abilities.map_err(|error| {
            refused(format!(
                "kubernetes.io/csi: attacher.UnmountDevice failed to check whether STAGE_UNSTAGE_VOLUME set: {error}"
            ))
        })?;
        if abilities.stage {
            // The volume no longer counts as staged, even if the call fails or is cancelled.
            let VolumeRecord { driver: name, handle, .. } = &volume.record;
            let key = Key { driver: name.clone(), handle: handle.clone() };
            self.with(|done| done.staged.remove(&key));
            driver.unstage(&volume.record.handle, &volume.staging).await.map_err(|error| {
                refused(format!("kubernetes.io/csi: attacher.UnmountDevice failed: {error}"))
            })?;
            self.deps.folders.remove_staging(volume).await?;
        }
        Ok(())
    }
}
