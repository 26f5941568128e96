//! Rules for volume mounts and volume devices of a container.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, VolumeDevice, VolumeMount};

use super::checker::Checker;
use super::{Context, formats};
use crate::path::Path;

pub(super) fn check(container: &Container, context: &Context<'_>, path: &Path, checker: &mut Checker) {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let devices = container.volume_devices.as_deref().unwrap_or_default();
    let mut paths = BTreeSet::new();
    for (path, mount) in path.field("volumeMounts").items(mounts) {
        let (name, mount_path) = (mount.name.as_str(), mount.mount_path.as_str());
        if checker.require_text(&path.field("name"), name) && !context.volumes.contains_key(name) {
            checker.not_found(&path.field("name"), name);
        }
        if checker.require_text(&path.field("mountPath"), mount_path) && !paths.insert(mount_path) {
            checker.invalid(&path.field("mountPath"), mount_path, "must be unique");
        }
        if devices.iter().any(|device| device.name == name) {
            checker.invalid(&path.field("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.device_path == mount_path) {
            checker.invalid(
                &path.field("mountPath"),
                mount_path,
                "must not already exist as a path in volumeDevices",
            );
        }
        check_sub_path(mount, &path, checker);
        check_propagation(mount, container, &path.field("mountPropagation"), checker);
        check_recursive_read_only(mount, &path.field("recursiveReadOnly"), checker);
    }
    check_volume_devices(devices, mounts, context, &path.field("volumeDevices"), checker);
}

fn check_sub_path(mount: &VolumeMount, path: &Path, checker: &mut Checker) {
    let sub_path = mount.sub_path.as_deref().unwrap_or_default();
    let expression = mount.sub_path_expr.as_deref().unwrap_or_default();
    checker.format(&path.field("subPath"), sub_path, formats::local_path(sub_path));
    checker.format(&path.field("subPathExpr"), expression, formats::local_path(expression));
    if !sub_path.is_empty() && !expression.is_empty() {
        checker.invalid(
            &path.field("subPathExpr"),
            expression,
            "subPathExpr and subPath are mutually exclusive",
        );
    }
}

fn check_propagation(mount: &VolumeMount, container: &Container, path: &Path, checker: &mut Checker) {
    let Some(mode) = mount.mount_propagation.as_deref() else { return };
    checker.one_of(path, mode, &["Bidirectional", "HostToContainer", "None"]);
    let is_privileged =
        container.security_context.as_ref().is_some_and(|context| context.privileged == Some(true));
    if mode == "Bidirectional" && !is_privileged {
        checker.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn check_recursive_read_only(mount: &VolumeMount, path: &Path, checker: &mut Checker) {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                checker.forbidden(path, "may only be specified when readOnly is true");
            }
            if !matches!(mount.mount_propagation.as_deref(), None | Some("None")) {
                checker
                    .forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => checker.unsupported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn check_volume_devices(
    devices: &[VolumeDevice],
    mounts: &[VolumeMount],
    context: &Context<'_>,
    path: &Path,
    checker: &mut Checker,
) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (path, device) in path.items(devices) {
        let (name, device_path) = (device.name.as_str(), device.device_path.as_str());
        if checker.require_text(&path.field("name"), name) {
            match context.volumes.get(name) {
                None => checker.not_found(&path.field("name"), name),
                Some(volume) if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() => {}
                Some(_) => {
                    let detail = "block mode requires a volume of type persistentVolumeClaim or ephemeral";
                    checker.invalid(&path.field("name"), name, detail);
                }
            }
            if !names.insert(name) {
                checker.invalid(&path.field("name"), name, "must be unique");
            }
        }
        if checker.require_text(&path.field("devicePath"), device_path) {
            checker.format(
                &path.field("devicePath"),
                device_path,
                formats::path_without_backsteps(device_path),
            );
            if !paths.insert(device_path) {
                checker.invalid(&path.field("devicePath"), device_path, "must be unique");
            }
        }
        if mounts.iter().any(|mount| mount.name == name) {
            checker.invalid(&path.field("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| mount.mount_path == device_path) {
            checker.invalid(
                &path.field("devicePath"),
                device_path,
                "must not already exist as a path in volumeMounts",
            );
        }
        if !context.host_users() {
            checker.forbidden(&path, "when `hostUsers` is false");
        }
    }
}
