//! Rules for volume mounts and volume devices of a container.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, VolumeDevice, VolumeMount};

use super::field::Field;
use super::{Context, formats};

pub(super) fn check(container: &Container, context: &Context<'_>, at: &Field<'_>) {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let devices = container.volume_devices.as_deref().unwrap_or_default();
    let mut paths = BTreeSet::new();
    for (at, mount) in at.field("volumeMounts").items(mounts) {
        let (name, mount_path) = (mount.name.as_str(), mount.mount_path.as_str());
        if at.field("name").require(name) && !context.volumes.contains_key(name) {
            at.field("name").not_found(name);
        }
        if at.field("mountPath").require(mount_path) && !paths.insert(mount_path) {
            at.field("mountPath").invalid(mount_path, "must be unique");
        }
        if devices.iter().any(|device| device.name == name) {
            at.field("name").invalid(name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.device_path == mount_path) {
            at.field("mountPath").invalid(mount_path, "must not already exist as a path in volumeDevices");
        }
        check_sub_path(mount, &at);
        check_propagation(mount, container, &at.field("mountPropagation"));
        check_recursive_read_only(mount, &at.field("recursiveReadOnly"));
    }
    check_volume_devices(devices, mounts, context, &at.field("volumeDevices"));
}

fn check_sub_path(mount: &VolumeMount, at: &Field<'_>) {
    let sub_path = mount.sub_path.as_deref().unwrap_or_default();
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    at.field("subPath").format(sub_path, formats::local_path);
    at.field("subPathExpr").format(expression, formats::local_path);
    if !sub_path.is_empty() && !expression.is_empty() {
        at.field("subPathExpr").invalid(expression, "subPathExpr and subPath are mutually exclusive");
    }
}

fn check_propagation(mount: &VolumeMount, container: &Container, at: &Field<'_>) {
    let Some(mode) = mount.mount_propagation.as_deref() else { return };
    at.one_of(mode, &["Bidirectional", "HostToContainer", "None"]);
    let is_privileged =
        container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true));
    if mode == "Bidirectional" && !is_privileged {
        at.forbidden("Bidirectional mount propagation is available only to privileged containers");
    }
}

fn check_recursive_read_only(mount: &VolumeMount, at: &Field<'_>) {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                at.forbidden("may only be specified when readOnly is true");
            }
            if !matches!(mount.mount_propagation.as_deref(), None | Some("None")) {
                at.forbidden("may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => at.unsupported(other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn check_volume_devices(
    devices: &[VolumeDevice],
    mounts: &[VolumeMount],
    context: &Context<'_>,
    at: &Field<'_>,
) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (at, device) in at.items(devices) {
        let (name, device_path) = (device.name.as_str(), device.device_path.as_str());
        if at.field("name").require(name) {
            match context.volumes.get(name) {
                None => at.field("name").not_found(name),
                Some(volume) if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() => {}
                Some(_) => {
                    let detail = "block mode requires a volume of type persistentVolumeClaim or ephemeral";
                    at.field("name").invalid(name, detail);
                }
            }
            if !names.insert(name) {
                at.field("name").invalid(name, "must be unique");
            }
        }
        if at.field("devicePath").require(device_path) {
            at.field("devicePath").format(device_path, formats::path_without_backsteps);
            if !paths.insert(device_path) {
                at.field("devicePath").invalid(device_path, "must be unique");
            }
        }
        if mounts.iter().any(|mount| mount.name == name) {
            at.field("name").invalid(name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| mount.mount_path == device_path) {
            at.field("devicePath").invalid(device_path, "must not already exist as a path in volumeMounts");
        }
        if !context.host_users() {
            at.forbidden("when `hostUsers` is false");
        }
    }
}
