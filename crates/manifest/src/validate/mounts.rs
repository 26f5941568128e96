//! Where a container sees the pod's volumes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, VolumeDevice, VolumeMount};

use super::checker::Checker;
use super::{Context, formats};
use crate::path::Path;

/// Checks a container's mounts and devices.
pub(super) fn check(container: &Container, context: &Context<'_>, at: &Path, check: &mut Checker) {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let devices = container.volume_devices.as_deref().unwrap_or_default();
    let mut paths = BTreeSet::new();
    for (at, mount) in at.field("volumeMounts").items(mounts) {
        let (name, path) = (mount.name.as_str(), mount.mount_path.as_str());
        if check.require_text(&at.field("name"), name) && !context.volumes.contains_key(name) {
            check.not_found(&at.field("name"), name);
        }
        if check.require_text(&at.field("mountPath"), path) && !paths.insert(path) {
            check.invalid(&at.field("mountPath"), path, "must be unique");
        }
        if devices.iter().any(|device| device.name == name) {
            check.invalid(&at.field("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.device_path == path) {
            check.invalid(&at.field("mountPath"), path, "must not already exist as a path in volumeDevices");
        }
        sub_path(mount, &at, check);
        propagation(mount, container, &at.field("mountPropagation"), check);
        recursive_read_only(mount, &at.field("recursiveReadOnly"), check);
    }
    volume_devices(devices, mounts, context, &at.field("volumeDevices"), check);
}

fn sub_path(mount: &VolumeMount, at: &Path, check: &mut Checker) {
    let path = mount.sub_path.as_deref().unwrap_or_default();
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    check.format(&at.field("subPath"), path, formats::descending_path(path));
    check.format(&at.field("subPathExpr"), expression, formats::descending_path(expression));
    if !path.is_empty() && !expression.is_empty() {
        check.invalid(&at.field("subPathExpr"), expression, "subPathExpr and subPath are mutually exclusive");
    }
}

fn propagation(mount: &VolumeMount, container: &Container, at: &Path, check: &mut Checker) {
    let Some(mode) = mount.mount_propagation.as_deref() else { return };
    check.one_of(at, mode, &["Bidirectional", "HostToContainer", "None"]);
    let is_privileged =
        container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true));
    if mode == "Bidirectional" && !is_privileged {
        check.forbidden(at, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(mount: &VolumeMount, at: &Path, check: &mut Checker) {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                check.forbidden(at, "may only be specified when readOnly is true");
            }
            if !matches!(mount.mount_propagation.as_deref(), None | Some("None")) {
                check.forbidden(at, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => check.unsupported(at, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn volume_devices(
    devices: &[VolumeDevice],
    mounts: &[VolumeMount],
    context: &Context<'_>,
    at: &Path,
    check: &mut Checker,
) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (at, device) in at.items(devices) {
        let (name, path) = (device.name.as_str(), device.device_path.as_str());
        if check.require_text(&at.field("name"), name) {
            match context.volumes.get(name) {
                None => check.not_found(&at.field("name"), name),
                Some(volume) if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() => {}
                Some(_) => {
                    let detail = "block mode needs a volume of type persistentVolumeClaim or ephemeral";
                    check.invalid(&at.field("name"), name, detail);
                }
            }
            if !names.insert(name) {
                check.invalid(&at.field("name"), name, "must be unique");
            }
        }
        if check.require_text(&at.field("devicePath"), path) {
            check.format(&at.field("devicePath"), path, formats::no_backsteps(path));
            if !paths.insert(path) {
                check.invalid(&at.field("devicePath"), path, "must be unique");
            }
        }
        if mounts.iter().any(|mount| mount.name == name) {
            check.invalid(&at.field("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| mount.mount_path == path) {
            check.invalid(&at.field("devicePath"), path, "must not already exist as a path in volumeMounts");
        }
        if !context.host_users() {
            check.forbidden(&at, "when `hostUsers` is false");
        }
    }
}
