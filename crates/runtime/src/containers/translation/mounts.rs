//! The mounts of a container in their order.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cri::v1::{IdMapping, LinuxContainerSecurityContext, Mount, MountPropagation};

use super::{CgroupView, TranslationInput};
use crate::containers::default_mounts;
use crate::errors::ServiceError;
use crate::launcher::MountAttribute::{NoDev, NoExec, NoSuid};
use crate::launcher::{FileOwners, IdRange, MountAccess, MountSource, MountSpec, Propagation, UserNamespace};

const FIELD: &str = "mounts";
const DEV: &str = "/dev";
const CGROUP: &str = "/sys/fs/cgroup";

pub(super) struct Mounts {
    pub(super) mounts: Vec<MountSpec>,
    /// The request mounts `/dev` itself.
    pub(super) own_devices: bool,
}

/// Defaults first, then everything else: the deeper a destination, the later.
pub(super) fn mounts(
    input: &TranslationInput<'_>,
    security: &LinuxContainerSecurityContext,
) -> Result<Mounts, ServiceError> {
    let mut requested = Vec::new();
    for (index, mount) in input.config.mounts.iter().enumerate() {
        requested.push(requested_mount(mount, input.image_mounts.get(&index), input.sandbox.user.as_ref())?);
    }
    for mount in &input.edits.mounts {
        let access = if mount.read_only { MountAccess::ReadOnly } else { MountAccess::ReadWrite };
        let made = bind(&mount.destination, mount.source.clone(), Propagation::Private, access)?;
        requested.push(MountSpec { attributes: mount.attributes.clone(), ..made });
    }
    let taken: BTreeSet<PathBuf> = requested.iter().map(|mount| mount.destination.clone()).collect();
    let own_devices = taken.contains(Path::new(DEV));
    let mut added = sandbox_mounts(input, security)?;
    for (destination, source) in &input.declared_volumes {
        added.push(bind(destination, source.clone(), Propagation::Private, MountAccess::ReadWrite)?);
    }
    added.retain(|mount| !taken.contains(&mount.destination));
    requested.append(&mut added);
    requested.sort_by_key(|mount| mount.destination.components().count());
    let mut mounts = defaults(&input.cgroup_view, security);
    mounts.retain(|mount| {
        let below_dev = own_devices && mount.destination.starts_with(DEV);
        !below_dev && !taken.contains(&mount.destination)
    });
    mounts.append(&mut requested);
    Ok(Mounts { mounts, own_devices })
}

fn defaults(cgroups: &CgroupView, security: &LinuxContainerSecurityContext) -> Vec<MountSpec> {
    let access = if security.privileged { MountAccess::ReadWrite } else { MountAccess::ReadOnly };
    match cgroups {
        CgroupView::V1(hierarchies) => default_mounts(hierarchies.clone(), access),
        CgroupView::V2(directory) => {
            let mut mounts = default_mounts(Vec::new(), access);
            for mount in &mut mounts {
                if mount.destination == Path::new(CGROUP) {
                    let source =
                        MountSource::Bind { path: directory.clone(), propagation: Propagation::Private };
                    mount.source = source;
                    mount.attributes = [NoSuid, NoDev, NoExec].into();
                }
            }
            mounts
        }
    }
}

/// Files of the sandbox, and its shared memory.
fn sandbox_mounts(
    input: &TranslationInput<'_>,
    security: &LinuxContainerSecurityContext,
) -> Result<Vec<MountSpec>, ServiceError> {
    let access = if security.readonly_rootfs { MountAccess::ReadOnly } else { MountAccess::ReadWrite };
    let sandbox = &input.sandbox;
    let files = &sandbox.files;
    let private = Propagation::Private;
    let file = |destination, source| -> Result<MountSpec, ServiceError> {
        Ok(MountSpec { owners: FileOwners::Mapped, ..bind(destination, source, private, access)? })
    };
    Ok(vec![
        file("/etc/hostname", files.hostname())?,
        file("/etc/hosts", files.hosts())?,
        file("/etc/resolv.conf", files.resolv_conf())?,
        bind("/dev/shm", sandbox.shared_memory.clone(), private, MountAccess::ReadWrite)?,
    ])
}

fn requested_mount(
    mount: &Mount,
    image: Option<&PathBuf>,
    user: Option<&UserNamespace>,
) -> Result<MountSpec, ServiceError> {
    let path = mount.container_path.as_str();
    let refuse = |problem: String| Err(ServiceError::setting(FIELD, problem));
    if mount.image.is_some() {
        let Some(source) = image else {
            return refuse(format!("the image volume of {path:?} is not mounted"));
        };
        if !mount.readonly {
            return refuse(format!("the image volume at {path:?} must be read-only"));
        }
        // The owners in a view of an image are mapped already.
        return bind(path, source.clone(), Propagation::Private, MountAccess::RecursivelyReadOnly);
    }
    if !mount.host_path.starts_with('/') {
        return refuse(format!("the host path {:?} is not absolute", mount.host_path));
    }
    let owners = owners(mount, user)?;
    let propagation = match MountPropagation::try_from(mount.propagation) {
        Ok(MountPropagation::PropagationPrivate) => Propagation::Private,
        Ok(MountPropagation::PropagationHostToContainer) => Propagation::HostToContainer,
        Ok(MountPropagation::PropagationBidirectional) => Propagation::Bidirectional,
        Err(_) => return refuse(format!("unknown propagation {} at {path:?}", mount.propagation)),
    };
    let access = match (mount.readonly, mount.recursive_read_only) {
        (true, true) if propagation == Propagation::Private => MountAccess::RecursivelyReadOnly,
        (_, true) => {
            return refuse(format!("a recursive read-only mount at {path:?} must be read-only and private"));
        }
        (true, false) => MountAccess::ReadOnly,
        (false, false) => MountAccess::ReadWrite,
    };
    Ok(MountSpec { owners, ..bind(path, PathBuf::from(&mount.host_path), propagation, access)? })
}

/// A mount can be mapped only as the pod's user namespace is.
fn owners(mount: &Mount, user: Option<&UserNamespace>) -> Result<FileOwners, ServiceError> {
    let path = &mount.container_path;
    let refuse =
        |problem: &str| Err(ServiceError::setting(FIELD, format!("mappings of ids at {path:?} {problem}")));
    if mount.uid_mappings.is_empty() && mount.gid_mappings.is_empty() {
        return Ok(FileOwners::Unchanged);
    }
    let Some(user) = user else { return refuse("need a user namespace") };
    let equal = |mappings: &[IdMapping], range: IdRange| {
        let [one] = mappings else { return false };
        (one.container_id, one.host_id, one.length) == (range.container, range.host, range.length)
    };
    if equal(&mount.uid_mappings, user.ids.uids) && equal(&mount.gid_mappings, user.ids.gids) {
        return Ok(FileOwners::Mapped);
    }
    refuse("differ from those of the pod")
}

fn bind(
    destination: &str,
    source: PathBuf,
    propagation: Propagation,
    access: MountAccess,
) -> Result<MountSpec, ServiceError> {
    if destination.is_empty() || destination.contains('\0') {
        return Err(ServiceError::setting(FIELD, format!("{destination:?} is not a path")));
    }
    Ok(MountSpec {
        destination: PathBuf::from(clean(destination)),
        source: MountSource::Bind { path: source, propagation },
        attributes: BTreeSet::new(),
        access,
        owners: FileOwners::Unchanged,
    })
}

/// An absolute path without `.`, `..` and repeated slashes.
pub(crate) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
