//! The Container Device Interface: files in which drivers describe what a container needs for their devices.
//!
//! A request names devices as `vendor/class=name`. Each is looked up in the specifications of this machine, and its edits become
//! devices, mounts, variables and groups of the container. Hooks are programs of the host that would run with full rights; this
//! runtime executes none, and refuses devices that need one.

mod specification;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use cri::v1::ContainerConfig;
use rustix::fs::{FileType, major, minor, stat};

use self::specification::{DeviceEdit, Edits, Specification};
use super::translation::{DeviceEdits, EditedMount, HostDevice, clean};
use crate::cgroups::DeviceAccess;
use crate::errors::ServiceError;
use crate::launcher::{DeviceKind, DeviceNode, MountAttribute};

const FIELD: &str = "CDI_devices";
const ANNOTATION: &str = "cdi.k8s.io/";
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The additions of the drivers of the requested devices. Nothing is read for a request without such devices.
pub(super) fn device_edits(
    config: &ContainerConfig,
    folders: &[PathBuf],
) -> Result<DeviceEdits, ServiceError> {
    let names = requested(config);
    if names.is_empty() {
        return Ok(DeviceEdits::default());
    }
    let (specifications, problems) = read_all(folders);
    let mut edits = DeviceEdits::default();
    for found in find_all(&names, &specifications, &problems)? {
        apply(found, &mut edits)?;
    }
    Ok(edits)
}

/// Names in the order of the request: the field first, then annotations by their keys.
fn requested(config: &ContainerConfig) -> Vec<String> {
    let mut annotations: Vec<_> =
        config.annotations.iter().filter(|(key, _)| key.starts_with(ANNOTATION)).collect();
    annotations.sort();
    let annotated = annotations.into_iter().flat_map(|(_, names)| names.split(',')).map(str::trim);
    let mut known = BTreeSet::new();
    let fields = config.cdi_devices.iter().map(|device| device.name.as_str());
    let names = fields.chain(annotated).filter(|name| !name.is_empty());
    names.filter(|name| known.insert(name.to_owned())).map(str::to_owned).collect()
}

/// All specifications, those of later folders last, and why others could not be read.
fn read_all(folders: &[PathBuf]) -> (Vec<(usize, Specification)>, Vec<String>) {
    let (mut specifications, mut problems) = (Vec::new(), Vec::new());
    for (priority, folder) in folders.iter().enumerate() {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let has_extension = |path: &PathBuf| {
            path.extension().and_then(|text| text.to_str()).is_some_and(|text| EXTENSIONS.contains(&text))
        };
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(has_extension).collect();
        paths.sort();
        for path in paths {
            match read(&path) {
                Ok(specification) => specifications.push((priority, specification)),
                Err(problem) => problems.push(format!("{}: {problem}", path.display())),
            }
        }
    }
    (specifications, problems)
}

fn read(path: &Path) -> Result<Specification, String> {
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("it is longer than {MAX_FILE_BYTES} bytes"));
    }
    Specification::parse(&text)
}

/// The edits of all devices in their order. Those of a whole specification come once, before its first device.
fn find_all<'a>(
    names: &[String],
    specifications: &'a [(usize, Specification)],
    problems: &[String],
) -> Result<Vec<&'a Edits>, ServiceError> {
    let mut edits = Vec::new();
    let mut used = BTreeSet::new();
    for name in names {
        let (kind, device) = name
            .split_once('=')
            .filter(|(kind, device)| kind.contains('/') && !device.is_empty())
            .ok_or_else(|| {
                ServiceError::setting(
                    FIELD,
                    format!("{name:?} is not a name of the form vendor/class=device"),
                )
            })?;
        let has = |specification: &Specification| {
            specification.kind == kind && specification.devices.iter().any(|found| found.name == device)
        };
        let matching = specifications.iter().enumerate().filter(|(_, (_, found))| has(found));
        let best = matching.clone().map(|(_, (priority, _))| *priority).max();
        let mut candidates = matching.filter(|(_, (priority, _))| Some(*priority) == best);
        let (Some((index, (_, specification))), another) = (candidates.next(), candidates.next()) else {
            let unread = if problems.is_empty() {
                String::new()
            } else {
                format!("; unreadable: {}", problems.join("; "))
            };
            let problem = format!("no specification has the device {name:?}{unread}");
            return Err(ServiceError::setting(FIELD, problem));
        };
        if another.is_some() {
            let problem = format!("several specifications in one folder have the device {name:?}");
            return Err(ServiceError::setting(FIELD, problem));
        }
        if used.insert(index) {
            edits.push(&specification.container_edits);
        }
        let devices = specification.devices.iter().filter(|found| found.name == device);
        edits.extend(devices.take(1).map(|found| &found.container_edits));
    }
    Ok(edits)
}

fn apply(from: &Edits, edits: &mut DeviceEdits) -> Result<(), ServiceError> {
    if let Some(hook) = from.hooks.first() {
        let problem = format!("the device needs the hook {}, and this runtime executes no hooks", hook.path);
        return Err(ServiceError::setting(FIELD, problem));
    }
    if from.intel_rdt.is_some() || !from.net_devices.is_empty() {
        let problem =
            "the device needs cache allocation or network devices, which this runtime does not set up";
        return Err(ServiceError::setting(FIELD, problem));
    }
    edits.environment.extend(from.env.iter().cloned());
    // 0 is what a missing group looks like.
    edits.groups.extend(from.additional_gids.iter().copied().filter(|group| *group != 0));
    for device in &from.device_nodes {
        edits.devices.push(host_device(device)?);
    }
    for mount in &from.mounts {
        let attributes = mount_options(&mount.options).map_err(|problem| {
            ServiceError::setting(FIELD, format!("mount {}: {problem}", mount.container_path))
        })?;
        if !matches!(mount.kind.as_str(), "" | "none" | "bind") {
            let problem = format!("mount {}: {:?} is no bind mount", mount.container_path, mount.kind);
            return Err(ServiceError::setting(FIELD, problem));
        }
        edits.mounts.push(EditedMount {
            source: PathBuf::from(&mount.host_path),
            destination: mount.container_path.clone(),
            read_only: mount.options.iter().any(|option| option == "ro"),
            attributes,
        });
    }
    Ok(())
}

fn mount_options(options: &[String]) -> Result<BTreeSet<MountAttribute>, String> {
    let mut attributes = BTreeSet::new();
    for option in options {
        match option.as_str() {
            "nosuid" => drop(attributes.insert(MountAttribute::NoSuid)),
            "nodev" => drop(attributes.insert(MountAttribute::NoDev)),
            "noexec" => drop(attributes.insert(MountAttribute::NoExec)),
            // Every mount of a container is like this.
            "ro" | "rw" | "bind" | "rbind" | "private" | "rprivate" | "suid" | "dev" | "exec"
            | "relatime" => {}
            other => return Err(format!("the option {other:?} is not supported")),
        }
    }
    Ok(attributes)
}

/// Numbers and mode that the specification leaves out are those of the host's device.
fn host_device(edit: &DeviceEdit) -> Result<HostDevice, ServiceError> {
    let host_path = if edit.host_path.is_empty() { &edit.path } else { &edit.host_path };
    let problem = |text: &str| ServiceError::setting(FIELD, format!("device {host_path}: {text}"));
    let letters = if edit.permissions.is_empty() { "rwm" } else { &edit.permissions };
    let access = DeviceAccess::parse(letters).ok_or_else(|| problem("unknown permissions"))?;
    let host = stat(host_path.as_str());
    let kind = match (edit.kind.as_str(), &host) {
        ("c" | "u", _) => DeviceKind::Character,
        ("b", _) => DeviceKind::Block,
        ("", Ok(host)) => match FileType::from_raw_mode(host.st_mode) {
            FileType::CharacterDevice => DeviceKind::Character,
            FileType::BlockDevice => DeviceKind::Block,
            _ => return Err(problem("it is not a device")),
        },
        ("", Err(errno)) => return Err(problem(&errno.to_string())),
        (other, _) => return Err(problem(&format!("devices of type {other:?} are not supported"))),
    };
    let (major, minor) = match (edit.major, edit.minor, &host) {
        (Some(major), minor, _) => (major, minor.unwrap_or(0)),
        (None, _, Ok(host)) => (major(host.st_rdev), minor(host.st_rdev)),
        (None, _, Err(errno)) => return Err(problem(&errno.to_string())),
    };
    let mode = edit.file_mode.or(host.as_ref().ok().map(|host| host.st_mode)).unwrap_or(0o666) & 0o777;
    let node = DeviceNode {
        path: PathBuf::from(clean(&edit.path)),
        host_path: PathBuf::from(host_path),
        kind,
        major,
        minor,
        mode,
        uid: edit.uid.or(host.as_ref().ok().map(|host| host.st_uid)).unwrap_or(0),
        gid: edit.gid.or(host.as_ref().ok().map(|host| host.st_gid)).unwrap_or(0),
    };
    Ok(HostDevice { node, access })
}

#[cfg(test)]
mod tests;
