use k8s_openapi::api::core::v1::{
    Container, ImageVolumeStatus, VolumeMount, VolumeMountStatus, VolumeStatus,
};
use model::ContainerStatus;

use super::Facts;

/// A container's mounts, and whether read-only ones are so with everything below them.
pub(super) fn volume_mounts(
    facts: &Facts<'_>,
    container: &Container,
    status: Option<&ContainerStatus>,
) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_ref().filter(|mounts| !mounts.is_empty())?;
    let one = |mount: &VolumeMount| {
        let read_only = mount.read_only == Some(true);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only.then(|| recursive(facts, mount).to_owned()),
            volume_status: status.and_then(|status| image_status(facts, mount, status)),
        }
    };
    Some(mounts.iter().map(one).collect())
}

/// Which image is mounted, where that is shown.
fn image_status(facts: &Facts<'_>, mount: &VolumeMount, status: &ContainerStatus) -> Option<VolumeStatus> {
    if !facts.node.gates.image_volume_digests {
        return None;
    }
    let mut volumes = facts.pod.spec.volumes.iter().flatten();
    volumes.find(|volume| volume.name == mount.name && volume.image.is_some())?;
    let (_, image) = status.image_mounts.iter().find(|(path, _)| *path == mount.mount_path)?;
    Some(VolumeStatus { image: Some(ImageVolumeStatus { image_ref: image.clone() }) })
}

fn recursive(facts: &Facts<'_>, mount: &VolumeMount) -> &'static str {
    match mount.recursive_read_only.as_deref() {
        Some("Enabled" | "IfPossible") if supported(facts) => "Enabled",
        _ => "Disabled",
    }
}

/// Whether the pod's handler can do it.
fn supported(facts: &Facts<'_>) -> bool {
    let sandbox = facts.observed.and_then(|observed| observed.sandboxes.first());
    let name = sandbox.map_or("", |sandbox| sandbox.runtime_handler.as_str());
    facts.handlers.iter().any(|handler| handler.name == name && handler.recursive_read_only_mounts)
}
