//! Waiting for a volume to be attached by its controller.

use std::collections::BTreeMap;
use std::time::Duration;

use decide::volumes::csi::{attached, attachment_name, is_exhausted, volume_in_use};
use model::CsiVolume;
use ports::pod_volumes::{VolumeError, VolumeStep};
use tokio::time::Instant;

use super::{CsiVolumes, Key};

/// How long one try waits.
const LONGEST: Duration = Duration::from_secs(120);
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(7);

impl CsiVolumes {
    /// What the attachment says, once there is one. Until the node's status names the volume as in use nothing is
    /// mounted: what is not in use may be detached at any time.
    pub(super) async fn wait_attached(
        &self,
        key: &Key,
        volume: &CsiVolume,
        counts_volumes: bool,
    ) -> Result<BTreeMap<String, String>, VolumeError> {
        if let Some(context) = self.with(|done| done.attached(key)) {
            return Ok(context);
        }
        let name = attachment_name(&volume.handle, &volume.driver, &self.parts.node);
        let end = Instant::now() + LONGEST;
        let mut wait = FIRST_WAIT;
        loop {
            let reason = match self.try_attached(volume, &name).await {
                Ok(context) => {
                    self.with(|done| done.has_attached(key, &context));
                    return Ok(context);
                }
                Err(reason) => reason,
            };
            if Instant::now() + wait >= end {
                let is_full = counts_volumes && self.is_full(&name).await;
                if is_full {
                    // Or the next pod comes here, too.
                    self.parts.drivers.ask_now(&volume.driver);
                }
                return Err(if is_full {
                    VolumeError::NodeIsFull(reason)
                } else {
                    VolumeError::Step { step: VolumeStep::WaitForAttach, reason }
                });
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn try_attached(&self, volume: &CsiVolume, name: &str) -> Result<BTreeMap<String, String>, String> {
        let (handle, in_use) = (&volume.handle, volume_in_use(&volume.driver, &volume.handle));
        // Somebody reports what is in use, or nobody does.
        if self.parts.in_use.receiver_count() > 0 && !self.is_reported(&in_use) {
            return Err(format!(
                "Volume has not been added to the list of VolumesInUse in the node's volume status for volume {in_use}"
            ));
        }
        let found = self.parts.api.attachment(name).await.map_err(|error| {
            format!("volume {handle} has GET error for volume attachment {name}: {error}")
        })?;
        match attached(&found)? {
            Some(context) => Ok(context),
            None => Err(format!("volume {handle} is not attached for volume attachment {name}")),
        }
    }

    /// Whether the node can have no more volumes of the kind.
    async fn is_full(&self, name: &str) -> bool {
        let found = self.parts.api.attachment(name).await;
        found.is_ok_and(|attachment| is_exhausted(&attachment))
    }

    fn is_reported(&self, name: &str) -> bool {
        let view = self.parts.node_view.borrow();
        let status = view.node().and_then(|node| node.status.as_ref());
        status.is_some_and(|status| status.volumes_in_use.iter().flatten().any(|known| known == name))
    }
}
