use k8s_openapi::api::core::v1::{Container, VolumeMount, VolumeMountStatus};

use super::Facts;

/// A container's mounts, and whether read-only ones are so with everything below them.
pub(super) fn volume_mounts(facts: &Facts<'_>, container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_ref().filter(|mounts| !mounts.is_empty())?;
    let one = |mount: &VolumeMount| {
        let read_only = mount.read_only == Some(true);
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: read_only.then(|| recursive(facts, mount).to_owned()),
            volume_status: None,
        }
    };
    Some(mounts.iter().map(one).collect())
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
