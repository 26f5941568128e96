//! Unpublish, unstage, forget.

use model::{CsiLifecycle, PodUid};
use ports::csi::CsiNode;
use ports::csi_folders::{Published, VolumeRecord};
use ports::pod_volumes::VolumeError;
use tokio::time::Instant;

use super::{CsiVolumes, Key, refused};

impl CsiVolumes {
    /// Undoes all volumes of a pod. One that fails, or whose record cannot be read, does not keep the others from being
    /// tried; the first failure is returned.
    pub(super) async fn tear_down_csi(&self, uid: &PodUid) -> Result<(), VolumeError> {
        let found = self.parts.folders.of_pod(uid).await?;
        let undone = futures::future::join_all(found.volumes.iter().map(|volume| self.undo(volume))).await;
        let unreadable = found.unreadable.into_iter().map(|record| Err(record.error.into()));
        undone.into_iter().chain(unreadable).find(Result::is_err).unwrap_or(Ok(()))
    }

    /// The pod's record goes last: whatever is cut short before is done again.
    async fn undo(&self, volume: &Published) -> Result<(), VolumeError> {
        let record = &volume.record;
        let key = Key { driver: record.driver.clone(), handle: record.handle.clone() };
        let _turn = self.turn(&key).await?;
        let driver = self.parts.drivers.get(&record.driver).map_err(|reason| {
            refused(format!("kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: {reason}"))
        })?;
        driver
            .unpublish(&record.handle, &volume.target)
            .await
            .map_err(|error| refused(format!("kubernetes.io/csi: Unmounter.TearDownAt failed: {error}")))?;
        self.with(|done| done.unpublished(&volume.uid, &record.spec_name));
        let is_last = !self.parts.folders.all().await?.is_used_by_another(volume);
        if is_last && record.lifecycle == CsiLifecycle::Persistent {
            let begun = Instant::now();
            let unstaged = self.unstage(&*driver, volume).await;
            let operation = if volume.is_block { "unmap_device" } else { "unmount_device" };
            self.operated(operation, &record.driver, begun, &unstaged);
            unstaged?;
        }
        self.parts.folders.remove(volume).await?;
        if is_last {
            self.with(|done| done.gone(&key));
            self.report();
        }
        Ok(())
    }

    pub(super) async fn unstage(&self, driver: &dyn CsiNode, volume: &Published) -> Result<(), VolumeError> {
        let abilities = driver.capabilities().await;
        let abilities = abilities.map_err(|error| {
            refused(format!(
                "kubernetes.io/csi: attacher.UnmountDevice failed to check whether STAGE_UNSTAGE_VOLUME set: {error}"
            ))
        })?;
        if abilities.stage {
            // It counts as staged no more, whatever becomes of this: an answer may be lost, or nobody wait for it.
            let VolumeRecord { driver: name, handle, .. } = &volume.record;
            self.with(|done| done.unstaged(&Key { driver: name.clone(), handle: handle.clone() }));
            driver.unstage(&volume.record.handle, &volume.staging).await.map_err(|error| {
                refused(format!("kubernetes.io/csi: attacher.UnmountDevice failed: {error}"))
            })?;
            self.parts.folders.remove_staging(volume).await?;
        }
        Ok(())
    }
}
