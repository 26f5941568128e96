//! Volume mounts of a container status.

use k8s_openapi::api::core::v1::{
    Container, ImageVolumeStatus, VolumeMount, VolumeMountStatus, VolumeStatus,
};
use model::ContainerStatus;

use super::PodStatusInputs;

/// A container's mounts, with `recursiveReadOnly` for the read-only ones.
pub(super) fn volume_mounts(
    inputs: &PodStatusInputs<'_>,
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
            recursive_read_only: read_only.then(|| recursive_read_only_mode(inputs, mount).to_owned()),
            volume_status: status.and_then(|status| image_status(inputs, mount, status)),
        }
    };
    Some(mounts.iter().map(one).collect())
}

/// The digest of a mounted image volume; feature gate `ImageVolumeWithDigest`.
fn image_status(
    inputs: &PodStatusInputs<'_>,
    mount: &VolumeMount,
    status: &ContainerStatus,
) -> Option<VolumeStatus> {
    if !inputs.node.gates.image_volume_digests {
        return None;
    }
    let mut volumes = inputs.pod.spec.volumes.iter().flatten();
    volumes.find(|volume| volume.name == mount.name && volume.image.is_some())?;
    let (_, image) = status.image_mounts.iter().find(|(path, _)| *path == mount.mount_path)?;
    Some(VolumeStatus { image: Some(ImageVolumeStatus { image_ref: image.clone() }) })
}

fn recursive_read_only_mode(inputs: &PodStatusInputs<'_>, mount: &VolumeMount) -> &'static str {
    match mount.recursive_read_only.as_deref() {
        Some("Enabled" | "IfPossible") if supports_recursive_read_only(inputs) => "Enabled",
        _ => "Disabled",
    }
}

/// Whether the pod's runtime handler supports recursive read-only mounts.
fn supports_recursive_read_only(inputs: &PodStatusInputs<'_>) -> bool {
    let sandbox = inputs.observed.and_then(|observed| observed.sandboxes.first());
    let name = sandbox.map_or("", |sandbox| sandbox.runtime_handler.as_str());
    inputs.handlers.iter().any(|handler| handler.name == name && handler.recursive_read_only_mounts)
}
