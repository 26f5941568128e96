//! Volumes that a controller attaches without a VolumeAttachment, by `volumesAttached` of the node.

use std::time::Duration;

use model::{FlexVolume, PlannedVolume, PodUid, VolumePlan};
use ports::host::pod_volumes::{VolumeError, VolumeResult, VolumeStep};
use tokio::time::Instant;

use super::CsiVolumes;

/// Node annotation: the attach/detach controller manages its volumes.
const CONTROLLER_MANAGED_ANNOTATION: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// Timeout of one attempt.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(120);

impl CsiVolumes {
    /// Waits until the node's status lists the disk as attached, because another node may still write to it. Does not wait for a
    /// disk that is already set up, or on a node without the controller.
    pub(super) async fn wait_listed(&self, uid: &PodUid, volume: &PlannedVolume, name: &str) -> VolumeResult {
        self.note_attached(uid, name);
        if self.deps.others.is_set_up(volume).await? {
            return Ok(());
        }
        let mut view = self.deps.node_view.clone();
        let listed = async {
            while !self.is_unmanaged() && self.device(name).is_none() {
                if view.changed().await.is_err() {
                    return;
                }
            }
        };
        let begun = Instant::now();
        let waited = tokio::time::timeout(ATTACH_TIMEOUT, listed).await.map_err(|_| VolumeError::Step {
            step: VolumeStep::WaitForAttach,
            reason: "Volume not attached according to node status".to_owned(),
        });
        let plugin = name.split('/').take(2).collect::<Vec<_>>().join("/");
        let storage = &self.deps.metrics.storage;
        storage.operated("verify_controller_attached_volume", &plugin, begun.elapsed(), waited.is_err());
        waited
    }

    /// The plan with the attached device, once the node's status has it.
    pub(super) fn as_attached(&self, uid: &PodUid, volume: &FlexVolume) -> VolumePlan {
        let name = format!("{}/{}", volume.driver, volume.name);
        self.note_attached(uid, &name);
        VolumePlan::Flex(Box::new(FlexVolume { device: self.device(&name), ..volume.clone() }))
    }

    /// Reports a volume as in use; other volumes may be detached at any time.
    fn note_attached(&self, uid: &PodUid, name: &str) {
        self.with(|done| done.uses_attached(uid, name));
        self.report();
    }

    /// Whether the node object exists and no controller attaches its volumes.
    fn is_unmanaged(&self) -> bool {
        let view = self.deps.node_view.borrow();
        view.node().is_some_and(|node| {
            let annotations = node.metadata.annotations.as_ref();
            annotations
                .and_then(|all| all.get(CONTROLLER_MANAGED_ANNOTATION))
                .is_none_or(|value| value != "true")
        })
    }

    /// The device path of a volume in the node's status.
    fn device(&self, name: &str) -> Option<String> {
        let view = self.deps.node_view.borrow();
        let attached = view.node()?.status.as_ref()?.volumes_attached.as_ref()?;
        attached.iter().find(|attached| attached.name == name).map(|attached| attached.device_path.clone())
    }
}
