//! Waits until the controller has attached a volume.

use std::collections::BTreeMap;
use std::time::Duration;

use decide::volumes::csi::{attached, attachment_name, is_exhausted, volume_in_use};
use model::CsiVolume;
use ports::host::pod_volumes::{VolumeError, VolumeResult, VolumeStep};
use timing::{Backoff, BackoffPolicy, random};
use tokio::time::Instant;

use super::{CsiVolumes, Key};

/// Timeout of one attempt.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(120);
const BACKOFF: BackoffPolicy = BackoffPolicy::doubling(Duration::from_millis(500), Duration::from_secs(7));

impl CsiVolumes {
    /// Returns the publish context of the attachment. Also waits until the node's status lists the volume as in use, because other
    /// volumes may be detached at any time.
    pub(super) async fn wait_attached(
        &self,
        key: &Key,
        volume: &CsiVolume,
        counts_volumes: bool,
    ) -> VolumeResult<BTreeMap<String, String>> {
        if let Some(context) = self.with(|done| done.attached.get(key).cloned()) {
            return Ok(context);
        }
        let name = attachment_name(&volume.handle, &volume.driver, &self.deps.node);
        let end = Instant::now() + ATTACH_TIMEOUT;
        let mut backoff = Backoff::new(BACKOFF);
        loop {
            let reason = match self.try_attached(volume, &name).await {
                Ok(context) => {
                    self.with(|done| done.attached.insert(key.clone(), context.clone()));
                    return Ok(context);
                }
                Err(reason) => reason,
            };
            let delay = backoff.next(random());
            if Instant::now() + delay >= end {
                let is_full = counts_volumes && self.is_full(&name).await;
                if is_full {
                    // Otherwise the next pod waits, too.
                    self.deps.drivers.request_refresh(&volume.driver);
                }
                return Err(if is_full {
                    VolumeError::NodeIsFull(reason)
                } else {
                    VolumeError::Step { step: VolumeStep::WaitForAttach, reason }
                });
            }
            tokio::time::sleep(delay).await;
        }
    }

    async fn try_attached(&self, volume: &CsiVolume, name: &str) -> Result<BTreeMap<String, String>, String> {
        let (handle, in_use) = (&volume.handle, volume_in_use(&volume.driver, &volume.handle));
        // Without an API server nothing is reported as in use.
        if self.deps.in_use.receiver_count() > 0 && !self.is_reported(&in_use) {
            return Err(format!(
                "Volume has not been added to the list of VolumesInUse in the node's volume status for volume {in_use}"
            ));
        }
        let found = self.deps.api.attachment(name).await.map_err(|error| {
            format!("volume {handle} has GET error for volume attachment {name}: {error}")
        })?;
        match attached(&found)? {
            Some(context) => Ok(context),
            None => Err(format!("volume {handle} is not attached for volume attachment {name}")),
        }
    }

    /// Whether the node has reached its attach limit.
    async fn is_full(&self, name: &str) -> bool {
        let found = self.deps.api.attachment(name).await;
        found.is_ok_and(|attachment| is_exhausted(&attachment))
    }

    fn is_reported(&self, name: &str) -> bool {
        let view = self.deps.node_view.borrow();
        let status = view.node().and_then(|node| node.status.as_ref());
        status.is_some_and(|status| status.volumes_in_use.iter().flatten().any(|known| known == name))
    }
}
