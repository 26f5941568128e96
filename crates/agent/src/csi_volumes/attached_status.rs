//! What the node's status says of volumes that a controller attaches without a VolumeAttachment.

use std::time::Duration;

use model::{FlexVolume, PlannedVolume, PodUid, VolumePlan};
use ports::pod_volumes::{VolumeError, VolumeStep};
use tokio::time::Instant;

use super::CsiVolumes;

/// The annotation of a node whose volumes a controller attaches.
const BY_CONTROLLER: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// How long one try waits.
const LONGEST: Duration = Duration::from_secs(120);

impl CsiVolumes {
    /// Waits until the node's status says that this node may have a disk: another one may still write to it. A disk that
    /// the pod has already stays, whatever the status says, and so does every disk of a node without such a controller.
    pub(super) async fn wait_listed(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        name: &str,
    ) -> Result<(), VolumeError> {
        self.note_attached(uid, name);
        if self.parts.others.is_there(volume).await? {
            return Ok(());
        }
        let mut view = self.parts.node_view.clone();
        let listed = async {
            while !self.is_by_another_way() && self.device(name).is_none() {
                if view.changed().await.is_err() {
                    return;
                }
            }
        };
        let begun = Instant::now();
        let waited = tokio::time::timeout(LONGEST, listed).await.map_err(|_| VolumeError::Step {
            step: VolumeStep::WaitForAttach,
            reason: "Volume not attached according to node status".to_owned(),
        });
        let plugin = name.split('/').take(2).collect::<Vec<_>>().join("/");
        let storage = &self.parts.metrics.storage;
        storage.operated("verify_controller_attached_volume", &plugin, begun.elapsed(), waited.is_err());
        waited
    }

    /// The plan with the device that the controller has attached, once the node's status names it.
    pub(super) fn as_attached(&self, uid: &PodUid, volume: &FlexVolume) -> VolumePlan {
        let name = format!("{}/{}", volume.driver, volume.name);
        self.note_attached(uid, &name);
        VolumePlan::Flex(Box::new(FlexVolume { device: self.device(&name), ..volume.clone() }))
    }

    /// Reports a volume as in use: what is not in use may be detached at any time.
    fn note_attached(&self, uid: &PodUid, name: &str) {
        self.with(|done| done.uses_attached(uid, name));
        self.report();
    }

    /// Whether the node is known, and no controller attaches its volumes.
    fn is_by_another_way(&self) -> bool {
        let view = self.parts.node_view.borrow();
        view.node().is_some_and(|node| {
            let annotations = node.metadata.annotations.as_ref();
            annotations.and_then(|all| all.get(BY_CONTROLLER)).is_none_or(|value| value != "true")
        })
    }

    /// Where the node's status says that a volume is attached.
    fn device(&self, name: &str) -> Option<String> {
        let view = self.parts.node_view.borrow();
        let attached = view.node()?.status.as_ref()?.volumes_attached.as_ref()?;
        attached.iter().find(|attached| attached.name == name).map(|attached| attached.device_path.clone())
    }
}
