//! Mounts that a container has unless its request mounts the same place.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::launcher::MountAttribute::{NoDev, NoExec, NoSuid, StrictAccessTime};
use crate::launcher::{
    CgroupHierarchy, FileOwners, FilesystemKind, MountAccess, MountAttribute, MountSource, MountSpec,
};

/// The default mounts in their order. `/dev/shm` is not one of them: it belongs to the sandbox.
#[must_use]
pub fn default_mounts(cgroups: Vec<CgroupHierarchy>, sys: MountAccess) -> Vec<MountSpec> {
    let new = |destination: &str, kind, attributes: &[MountAttribute], options: &[(&str, &str)]| MountSpec {
        destination: PathBuf::from(destination),
        source: MountSource::New {
            kind,
            options: options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        },
        attributes: attributes.iter().copied().collect(),
        access: MountAccess::ReadWrite,
        owners: FileOwners::Unchanged,
    };
    let closed = [NoSuid, NoExec, NoDev];
    // Each devpts file system is a separate instance.
    let terminals = [("ptmxmode", "0666"), ("mode", "0620"), ("gid", "5")];
    vec![
        new("/proc", FilesystemKind::Proc, &closed, &[]),
        new(
            "/dev",
            FilesystemKind::Tmpfs,
            &[NoSuid, StrictAccessTime],
            &[("mode", "755"), ("size", "65536k")],
        ),
        new("/dev/pts", FilesystemKind::Devpts, &[NoSuid, NoExec], &terminals),
        new("/dev/mqueue", FilesystemKind::Mqueue, &closed, &[]),
        MountSpec { access: sys, ..new("/sys", FilesystemKind::Sysfs, &closed, &[]) },
        MountSpec {
            destination: PathBuf::from("/sys/fs/cgroup"),
            source: MountSource::Cgroups(cgroups),
            attributes: BTreeSet::from(closed),
            access: sys,
            owners: FileOwners::Unchanged,
        },
    ]
}
