//! What is mounted into a container.

use std::path::Path;

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use model::{Mount, MountPropagation, NodeSettings, PlannedVolume, VolumePlan};

use crate::hosts_file::{HOSTS_PATH, mounts_over_hosts};

/// Mounts of a container: its volumes in their order, then the managed hosts file, then the termination log.
/// The two files are mounted where given and wanted.
///
/// # Errors
/// When a mount names no volume of the pod, or asks for what is not supported.
pub fn mounts(
    container: &Container,
    volumes: &[PlannedVolume],
    hosts_file: Option<&Path>,
    termination_log: Option<&Path>,
    settings: &NodeSettings,
) -> Result<Vec<Mount>, String> {
    if let Some(device) = container.volume_devices.iter().flatten().next() {
        return Err(format!("volume {:?}: block devices are not supported yet", device.name));
    }
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = volumes.iter().find(|volume| volume.name == mount.name).ok_or_else(|| {
            format!("cannot find volume {:?} to mount into container {:?}", mount.name, container.name)
        })?;
        mounts.push(volume_mount(mount, volume)?);
    }
    if let Some(path) = hosts_file.filter(|_| !mounts_over_hosts(container)) {
        mounts.push(file_mount(path, HOSTS_PATH));
    }
    let message_path = container.termination_message_path.as_deref().unwrap_or_default();
    if let Some(path) = termination_log.filter(|_| !message_path.is_empty()) {
        mounts.push(file_mount(path, &absolute(message_path)));
    }
    if !settings.capabilities.selinux_enabled {
        mounts.iter_mut().for_each(|mount| mount.selinux_relabel = false);
    }
    Ok(mounts)
}

fn volume_mount(mount: &VolumeMount, volume: &PlannedVolume) -> Result<Mount, String> {
    for (field, value) in [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)] {
        if value.as_ref().is_some_and(|path| !path.is_empty()) {
            return Err(format!("volume {:?}: {field} is not supported yet", mount.name));
        }
    }
    Ok(Mount {
        container_path: absolute(&mount.mount_path),
        host_path: volume.plan.host_path().to_string_lossy().into_owned(),
        readonly: mount.read_only == Some(true) || is_read_only(&volume.plan),
        recursive_read_only: recursive_read_only(mount)?,
        // The host's own files keep their labels.
        selinux_relabel: match &volume.plan {
            VolumePlan::EmptyDir { .. }
            | VolumePlan::MemoryDir { .. }
            | VolumePlan::HugePagesDir { .. }
            | VolumePlan::Files { .. } => true,
            VolumePlan::HostPath { .. } => false,
        },
        propagation: propagation(mount)?,
    })
}

/// Whether containers may not write whatever their mount says.
fn is_read_only(plan: &VolumePlan) -> bool {
    match plan {
        VolumePlan::Files { .. } => true,
        VolumePlan::EmptyDir { .. }
        | VolumePlan::MemoryDir { .. }
        | VolumePlan::HugePagesDir { .. }
        | VolumePlan::HostPath { .. } => false,
    }
}

fn file_mount(host_path: &Path, container_path: &str) -> Mount {
    Mount {
        container_path: container_path.to_owned(),
        host_path: host_path.to_string_lossy().into_owned(),
        selinux_relabel: true,
        ..Mount::default()
    }
}

fn propagation(mount: &VolumeMount) -> Result<MountPropagation, String> {
    match mount.mount_propagation.as_deref() {
        None | Some("None") => Ok(MountPropagation::Private),
        Some("HostToContainer") => Ok(MountPropagation::HostToContainer),
        Some("Bidirectional") => Ok(MountPropagation::Bidirectional),
        Some(other) => Err(format!("volume {:?}: invalid mount propagation {other:?}", mount.name)),
    }
}

/// Whether the runtime can do it is not known here: `IfPossible` stays off, `Enabled` is refused.
fn recursive_read_only(mount: &VolumeMount) -> Result<bool, String> {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled" | "IfPossible") => Ok(false),
        Some("Enabled") => {
            Err(format!("volume {:?}: recursive read-only mounts are not supported yet", mount.name))
        }
        Some(other) => Err(format!("volume {:?}: unknown recursive read-only mode {other:?}", mount.name)),
    }
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests;
