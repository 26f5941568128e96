//! Specification of a container and its processes for the launcher. The CRI layer makes it; nothing in it comes unchecked
//! from an image.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::capabilities::Capability;
use super::seccomp::Filter;

/// A container and its first process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    pub id: String,
    /// A mounted directory, used by this container alone.
    pub root: PathBuf,
    pub root_access: Access,
    /// An overlay of mapped layers is [`FileOwners::Unchanged`]: the kernel cannot map an overlay itself.
    pub root_owners: FileOwners,
    pub namespaces: Namespaces,
    /// In the order in which they are made.
    pub mounts: Vec<MountSpec>,
    pub devices: DeviceNodes,
    pub masked_paths: Vec<PathBuf>,
    pub readonly_paths: Vec<PathBuf>,
    pub process: ProcessSpec,
    /// Directories of the container's cgroups, one per hierarchy. They exist.
    pub cgroups: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    ReadWrite,
    ReadOnly,
}

/// Files of the namespaces to join; none means the host's. A container always has its own mount namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespaces {
    pub network: Option<PathBuf>,
    pub ipc: Option<PathBuf>,
    pub uts: Option<PathBuf>,
    pub pid: PidNamespace,
    pub cgroup: CgroupNamespace,
    /// The pod's user namespace, which owns the namespaces above.
    pub user: Option<UserNamespace>,
}

/// A user namespace that a keeper has made and pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserNamespace {
    pub path: PathBuf,
    pub ids: IdMappings,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdMappings {
    pub uids: IdRange,
    pub gids: IdRange,
}

/// The ids `container..container + length` of a user namespace are `host..host + length` on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdRange {
    pub container: u32,
    pub host: u32,
    pub length: u32,
}

/// Owners of the files of a mount in a user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileOwners {
    /// The mount shows the ids on disk as ids of the host.
    Unchanged,
    /// The ids on disk are ids of the container's user namespace (an idmapped mount). Without a user namespace this changes nothing.
    Mapped,
}

/// Namespaces to make; none for a path means that the pod uses the host's. All are owned by the user namespace if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodNamespaces {
    pub user: Option<UserNamespace>,
    pub network: Option<PathBuf>,
    pub ipc: Option<PathBuf>,
    pub uts: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidNamespace {
    New,
    Host,
    Join(PathBuf),
}

/// How a container sees the paths of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupNamespace {
    /// Its own cgroup is the root.
    New,
    Host,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountSpec {
    /// Absolute, inside the container.
    pub destination: PathBuf,
    pub source: MountSource,
    pub attributes: BTreeSet<MountAttribute>,
    pub access: MountAccess,
    /// For bind mounts.
    pub owners: FileOwners,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountSource {
    /// A file or directory of the host.
    Bind { path: PathBuf, propagation: Propagation },
    /// A new file system with its options.
    New { kind: FilesystemKind, options: Vec<(String, String)> },
    /// The container's own cgroups, under the directory names of the host's hierarchies.
    Cgroups(Vec<CgroupHierarchy>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupHierarchy {
    /// Name of the directory below `/sys/fs/cgroup`.
    pub name: String,
    /// The container's directory in the hierarchy.
    pub directory: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilesystemKind {
    Proc,
    Sysfs,
    Tmpfs,
    Devpts,
    Mqueue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    Private,
    HostToContainer,
    Bidirectional,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MountAttribute {
    NoSuid,
    NoDev,
    NoExec,
    StrictAccessTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountAccess {
    ReadWrite,
    ReadOnly,
    RecursivelyReadOnly,
}

/// What is made in `/dev`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceNodes {
    /// The request mounts its own `/dev`.
    None,
    /// The standard devices and links, and these.
    StandardAnd(Vec<DeviceNode>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceNode {
    /// Absolute, inside the container.
    pub path: PathBuf,
    /// The same device on the host. It is mounted in user namespaces, where nodes cannot be made.
    pub host_path: PathBuf,
    pub kind: DeviceKind,
    pub major: u32,
    pub minor: u32,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceKind {
    Character,
    Block,
}

/// A process: the first one of a container, or one that is executed in it later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// Without arguments the process executes nothing: it waits for orphans of its PID namespace.
    pub arguments: Vec<String>,
    pub environment: Vec<String>,
    pub directory: PathBuf,
    pub user: User,
    /// Bounding, permitted and effective set. The inheritable and ambient sets are empty.
    pub capabilities: BTreeSet<Capability>,
    pub new_privileges: NewPrivileges,
    pub seccomp: Option<Filter>,
    pub security_label: SecurityLabel,
    pub oom_score_adj: i32,
    pub resource_limits: Vec<ResourceLimit>,
    pub terminal: Terminal,
}

/// Whether the process gets a new terminal of the container as its standard streams and controlling terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Terminal {
    None,
    New,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// All supplementary groups.
    pub groups: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewPrivileges {
    Allowed,
    Forbidden,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityLabel {
    None,
    AppArmor(String),
    SeLinux(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    pub kind: LimitKind,
    pub soft: u64,
    pub hard: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitKind {
    OpenFiles,
    Processes,
    CoreSize,
    LockedMemory,
}
