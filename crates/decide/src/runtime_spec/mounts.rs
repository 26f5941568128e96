//! Mounts and block devices of a container.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use model::{Device, Mount, MountPropagation, PlannedVolume, SubPath, VolumePlan};

use crate::runtime_spec::container_spec::ContainerInputs;
use crate::runtime_spec::environment::{expand, lookup};
use crate::runtime_spec::hosts_file::{HOSTS_PATH, mounts_over_hosts};
use crate::runtime_spec::pod_paths::PodPaths;
use crate::volumes::climbs;

/// The volume mounts in spec order, then the managed hosts file and the termination message file if they are set.
///
/// # Errors
/// When a mount refers to an unknown volume or requests an unsupported mode.
pub(super) fn mounts(inputs: &ContainerInputs<'_>, env: &[(String, String)]) -> Result<Vec<Mount>, String> {
    let container = inputs.container.container;
    let mut mounts = Vec::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let volume = inputs.volumes.iter().find(|volume| volume.name == mount.name).ok_or_else(|| {
            format!("cannot find volume {:?} to mount into container {:?}", mount.name, container.name)
        })?;
        mounts.push(volume_mount(inputs, env, index, mount, volume)?);
    }
    if let Some(path) = inputs.hosts_file.filter(|_| !mounts_over_hosts(container)) {
        mounts.push(file_mount(path, HOSTS_PATH));
    }
    let message_path = container.termination_message_path.as_deref().unwrap_or_default();
    if let Some(path) = inputs.termination_log.filter(|_| !message_path.is_empty()) {
        mounts.push(file_mount(path, &absolute_path(message_path)));
    }
    if inputs.settings.capabilities.selinux.is_none() {
        mounts.iter_mut().for_each(|mount| mount.selinux_relabel = false);
    }
    Ok(mounts)
}

///
/// # Errors
/// When a device refers to an unknown volume or one that is not a block device.
pub fn devices(container: &Container, volumes: &[PlannedVolume]) -> Result<Vec<Device>, String> {
    let requested = container.volume_devices.iter().flatten();
    requested
        .map(|device| {
            if !device.device_path.starts_with('/') {
                return Err(format!("error DevicePath `{}` must be an absolute path", device.device_path));
            }
            let volume = volumes.iter().find(|volume| volume.name == device.name);
            let block = volume.and_then(|volume| block_device(&volume.plan)).ok_or_else(|| {
                format!("cannot find volume {:?} to pass into container {:?}", device.name, container.name)
            })?;
            let (path, read_only) = block;
            Ok(Device {
                container_path: device.device_path.clone(),
                host_path: path.to_string_lossy().into_owned(),
                permissions: if read_only { "r" } else { "mrw" }.to_owned(),
            })
        })
        .collect()
}

fn block_device(plan: &VolumePlan) -> Option<(&Path, bool)> {
    plan.host_path().filter(|_| plan.is_device()).map(|path| (path, is_read_only(plan)))
}

fn volume_mount(
    inputs: &ContainerInputs<'_>,
    env: &[(String, String)],
    index: usize,
    mount: &VolumeMount,
    volume: &PlannedVolume,
) -> Result<Mount, String> {
    let sub_path = sub_path(mount, env)?;
    let base = Mount {
        container_path: absolute_path(&mount.mount_path),
        readonly: mount.read_only == Some(true) || is_read_only(&volume.plan),
        recursive_read_only: recursive_read_only(mount, inputs.recursive_read_only)
            .map_err(|problem| format!("failed to resolve recursive read-only mode: {problem}"))?,
        selinux_relabel: is_relabelled(&volume.plan) && volume.label.of_mount().is_none(),
        propagation: propagation(mount)?,
        ..Mount::default()
    };
    let path = match &volume.plan {
        VolumePlan::Image { image, .. } => {
            return Ok(Mount { image: Some(image.clone()), image_sub_path: sub_path, ..base });
        }
        plan => plan.host_path().unwrap_or(Path::new("")),
    };
    if sub_path.is_empty() {
        return Ok(Mount { host_path: path.to_string_lossy().into_owned(), ..base });
    }
    let sub_path_mount = SubPath {
        volume: volume.name.clone(),
        volume_path: path.to_path_buf(),
        path: PathBuf::from(sub_path),
        container: inputs.container.container.name.clone(),
        index,
    };
    let target = PodPaths::new(inputs.settings).sub_path(&inputs.pod.uid, &sub_path_mount);
    Ok(Mount { host_path: target.to_string_lossy().into_owned(), sub_path: Some(sub_path_mount), ..base })
}

/// The expanded `subPath`; empty for the whole volume.
fn sub_path(mount: &VolumeMount, env: &[(String, String)]) -> Result<String, String> {
    let path = match mount.sub_path_expr.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => {
            let missing = std::cell::RefCell::new(std::collections::BTreeSet::new());
            let path = expand(text, |name| {
                let value = lookup(env, name).unwrap_or_default();
                if value.is_empty() {
                    missing.borrow_mut().insert(name.to_owned());
                }
                Some(value)
            });
            let missing: Vec<String> = missing.into_inner().into_iter().collect();
            if !missing.is_empty() {
                return Err(format!("missing value for {}", missing.join(", ")));
            }
            path
        }
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    if path.starts_with('/') {
        return Err(format!("error SubPath `{path}` must not be an absolute path"));
    }
    if climbs(Path::new(&path)) {
        return Err(format!("unable to provision SubPath `{path}`: must not contain '..'"));
    }
    Ok(path)
}

/// Whether the volume is read-only regardless of the mount.
fn is_read_only(plan: &VolumePlan) -> bool {
    match plan {
        VolumePlan::Files { .. } | VolumePlan::Image { .. } => true,
        VolumePlan::Nfs { read_only, .. }
        | VolumePlan::Local { read_only, .. }
        | VolumePlan::Device { read_only, .. }
        | VolumePlan::HostPath { read_only, .. } => *read_only,
        VolumePlan::Iscsi(disk) => disk.read_only,
        VolumePlan::Fc(disk) => disk.read_only,
        VolumePlan::Flex(volume) => volume.read_only,
        VolumePlan::Csi(volume) => volume.read_only,
        VolumePlan::EmptyDir { .. } | VolumePlan::MemoryDir { .. } | VolumePlan::HugePagesDir { .. } => false,
    }
}

/// Whether the runtime relabels the files for SELinux. Files of the host keep their labels, and a read-only volume cannot
/// be relabelled.
fn is_relabelled(plan: &VolumePlan) -> bool {
    match plan {
        VolumePlan::EmptyDir { .. }
        | VolumePlan::MemoryDir { .. }
        | VolumePlan::HugePagesDir { .. }
        | VolumePlan::Files { .. } => true,
        VolumePlan::Local { read_only, .. } => !read_only,
        VolumePlan::Iscsi(disk) => !disk.read_only,
        VolumePlan::Fc(disk) => !disk.read_only,
        VolumePlan::Flex(volume) => !volume.read_only,
        VolumePlan::Csi(volume) => !volume.read_only,
        VolumePlan::HostPath { .. }
        | VolumePlan::Image { .. }
        | VolumePlan::Device { .. }
        | VolumePlan::Nfs { .. } => false,
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
        Some(other) => Err(format!("invalid MountPropagation mode: {other:?}")),
    }
}

fn recursive_read_only(mount: &VolumeMount, supported: bool) -> Result<bool, String> {
    let mode = match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => return Ok(false),
        Some(mode) => mode,
    };
    let name = &mount.name;
    if mount.read_only != Some(true) {
        return Err(format!("volume {name:?} requested recursive read-only mode, but it is not read-only"));
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|mode| *mode != "None") {
        return Err(format!(
            "volume {name:?} requested recursive read-only mode, but it is not compatible with propagation {propagation:?}"
        ));
    }
    match mode {
        "IfPossible" => Ok(supported),
        "Enabled" if supported => Ok(true),
        "Enabled" => Err(format!(
            "volume {name:?} requested recursive read-only mode, but it is not supported by the runtime"
        )),
        other => Err(format!("unknown recursive read-only mode {other:?}")),
    }
}

fn absolute_path(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests;
