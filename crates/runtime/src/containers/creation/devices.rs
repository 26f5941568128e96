//! Devices of the host for a container.

use std::fs;
use std::path::{Path, PathBuf};

use cri::v1::{ContainerConfig, Device};
use rustix::fs::{FileType, major, minor, stat};

use crate::cgroups::DeviceAccess;
use crate::containers::translation::{HostDevice, clean};
use crate::errors::ServiceError;
use crate::launcher::{DeviceKind, DeviceNode};

const FIELD: &str = "devices";
/// Entries of `/dev` that every container makes itself, or that are no devices.
const SKIPPED: &[&str] = &["pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev", "console"];
const MAX_DEPTH: usize = 8;

/// The devices of a request; all of the host for a privileged container.
pub(super) fn requested(config: &ContainerConfig, privileged: bool) -> Result<Vec<HostDevice>, ServiceError> {
    let mut found = Vec::new();
    if privileged {
        collect(Path::new("/dev"), Path::new("/dev"), DeviceAccess::ALL, &mut found, 0);
    }
    for device in &config.devices {
        add(device, &mut found)?;
    }
    Ok(found)
}

fn add(device: &Device, found: &mut Vec<HostDevice>) -> Result<(), ServiceError> {
    let Device { container_path, host_path, permissions } = device;
    let problem = |text: String| ServiceError::setting(FIELD, format!("{host_path}: {text}"));
    let letters = if permissions.is_empty() { "rwm" } else { permissions };
    let access = DeviceAccess::parse(letters);
    let access = access.ok_or_else(|| problem(format!("{permissions:?} are no permissions of a device")))?;
    let source = fs::canonicalize(host_path).map_err(|error| problem(error.to_string()))?;
    let destination = if container_path.is_empty() { host_path } else { container_path };
    let destination = PathBuf::from(clean(destination));
    if source.is_dir() {
        collect(&source, &destination, access, found, 0);
        return Ok(());
    }
    let device = node(&source, &destination).ok_or_else(|| problem("it is not a device".to_owned()))?;
    found.push(HostDevice { node: device, access });
    Ok(())
}

/// All devices below a folder. What disappears meanwhile is skipped.
fn collect(
    source: &Path,
    destination: &Path,
    access: DeviceAccess,
    found: &mut Vec<HostDevice>,
    depth: usize,
) {
    if depth > MAX_DEPTH {
        return;
    }
    for entry in fs::read_dir(source).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_symlink() || name.to_str().is_some_and(|name| SKIPPED.contains(&name)) {
            continue;
        }
        let (source, destination) = (entry.path(), destination.join(&name));
        if kind.is_dir() {
            collect(&source, &destination, access, found, depth + 1);
        } else if let Some(node) = node(&source, &destination) {
            found.push(HostDevice { node, access });
        }
    }
}

/// The node that equals a device of the host.
fn node(source: &Path, destination: &Path) -> Option<DeviceNode> {
    let status = stat(source).ok()?;
    let kind = match FileType::from_raw_mode(status.st_mode) {
        FileType::CharacterDevice => DeviceKind::Character,
        FileType::BlockDevice => DeviceKind::Block,
        _ => return None,
    };
    Some(DeviceNode {
        path: destination.to_owned(),
        host_path: source.to_owned(),
        kind,
        major: major(status.st_rdev),
        minor: minor(status.st_rdev),
        mode: status.st_mode & 0o7777,
        uid: status.st_uid,
        gid: status.st_gid,
    })
}
