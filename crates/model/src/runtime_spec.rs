//! Sandboxes and containers to create, independent of the CRI messages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::UserNamespace;

/// A pod sandbox to be created.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SandboxSpec {
    pub name: String,
    pub namespace: String,
    /// Pod UID.
    pub uid: String,
    /// How many sandboxes this pod had before.
    pub attempt: u32,
    /// Hostname inside; empty with host networking.
    pub hostname: String,
    /// Folder of the pod's container logs.
    pub log_directory: String,
    /// Contents of resolv.conf; `None` leaves the runtime's default.
    pub dns: Option<DnsConfig>,
    pub port_mappings: Vec<PortMapping>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub cgroup_parent: String,
    /// Kernel parameters of the pod's namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// Security settings of the sandbox.
    pub security: SandboxSecurity,
    /// Sum over the containers, for the runtime's information.
    pub resources: Option<LinuxResources>,
    /// What the runtime class adds.
    pub overhead: Option<LinuxResources>,
    /// Runtime handler; empty is the default one.
    pub runtime_handler: String,
    /// The runtime does not get it.
    pub urgency: StartUrgency,
}

/// Whether the start of a pod waits for those of others, when many pods start at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartUrgency {
    #[default]
    Ordinary,
    Urgent,
}

/// Security settings of a sandbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SandboxSecurity {
    /// How each namespace is shared.
    pub namespaces: Namespaces,
    /// Whose users the pod's users are; all its containers share them.
    pub user_namespace: UserNamespace,
    /// Whether any container may be privileged.
    pub privileged: bool,
    /// User of the sandbox process.
    pub run_as_user: Option<i64>,
    /// Group of the sandbox process.
    pub run_as_group: Option<i64>,
    pub supplemental_groups: Vec<i64>,
    /// How image groups are merged.
    pub supplemental_groups_policy: SupplementalGroupsPolicy,
    pub selinux: Option<SeLinuxOptions>,
    pub seccomp: Option<SecurityProfile>,
}

/// Namespace sharing of a pod or container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    pub network: NamespaceMode,
    pub pid: NamespaceMode,
    pub ipc: NamespaceMode,
}

/// How a namespace is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamespaceMode {
    /// All containers of the pod.
    #[default]
    Pod,
    /// Nobody.
    Container,
    Node,
    /// One other container, by id.
    Target(String),
}

/// How a container's groups combine with the image's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SupplementalGroupsPolicy {
    /// Image groups are kept.
    #[default]
    Merge,
    /// Only the groups of the pod.
    Strict,
}

/// A seccomp or AppArmor profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityProfile {
    /// The runtime's own.
    RuntimeDefault,
    /// None.
    Unconfined,
    /// A profile file or a loaded profile by name.
    Localhost(String),
}

/// An SELinux label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeLinuxOptions {
    pub user: String,
    pub role: String,
    pub kind: String,
    pub level: String,
}

/// Contents of a pod's resolv.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsConfig {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// A port of the host that leads into the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapping {
    pub protocol: Protocol,
    pub container_port: i32,
    /// Port on the host; 0 for none.
    pub host_port: i32,
    /// Host address; empty for all.
    pub host_ip: String,
}

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// A container to be created in a sandbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerSpec {
    pub name: String,
    pub attempt: u32,
    pub image: ImageSpec,
    /// Entry point; empty takes the image's.
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// Working directory; empty takes the image's.
    pub working_dir: String,
    pub env: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    /// Names of the Container Device Interface that the runtime resolves.
    pub cdi_devices: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Log file relative to the sandbox's log folder.
    pub log_path: String,
    pub stdin: bool,
    /// Whether stdin closes after the first attach.
    pub stdin_once: bool,
    /// Whether a terminal is allocated.
    pub tty: bool,
    pub resources: LinuxResources,
    pub security: ContainerSecurity,
    /// Stop signal by name (`SIGTERM`); `None` takes the image's.
    pub stop_signal: Option<String>,
}

/// An image as asked for and as resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSpec {
    /// Reference handed to the runtime (the resolved id at container creation).
    pub image: String,
    pub user_specified_image: String,
    /// Runtime handler the image is for.
    pub runtime_handler: String,
    /// The annotations of the pod it is for.
    pub annotations: BTreeMap<String, String>,
}

/// Credentials for a pull.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ImageAuth {
    pub username: String,
    pub password: String,
    /// Base64 form of both.
    pub auth: String,
    pub server_address: String,
    /// OAuth2 identity token.
    pub identity_token: String,
    pub registry_token: String,
}

impl std::fmt::Debug for ImageAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageAuth").field("server_address", &self.server_address).finish_non_exhaustive()
    }
}

/// A bind mount into a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    pub container_path: String,
    pub host_path: String,
    /// Read-only.
    pub readonly: bool,
    /// Read-only including everything below.
    pub recursive_read_only: bool,
    /// Whether the runtime relabels the mount for SELinux.
    pub selinux_relabel: bool,
    pub propagation: MountPropagation,
    /// The image that is mounted instead of a path of the host.
    pub image: Option<ImageSpec>,
    /// The part of the image that is mounted; empty for all of it.
    pub image_sub_path: String,
    /// The part of a volume that must be bound to `host_path` before the container is made.
    pub sub_path: Option<SubPath>,
}

/// A part of a volume that a container sees on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubPath {
    pub volume: String,
    pub volume_path: PathBuf,
    /// The part, relative to the volume.
    pub path: PathBuf,
    pub container: String,
    /// Which of the container's mounts it is.
    pub index: usize,
}

/// How mounts propagate between host and container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountPropagation {
    /// Not at all.
    #[default]
    Private,
    HostToContainer,
    /// Both ways.
    Bidirectional,
}

/// A device node of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub container_path: String,
    pub host_path: String,
    /// Any of `r`, `w`, `m`.
    pub permissions: String,
}

/// Linux resource limits of a container or sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxResources {
    /// CFS period in microseconds.
    pub cpu_period: i64,
    /// CFS quota in microseconds; 0 none, -1 unlimited.
    pub cpu_quota: i64,
    pub cpu_shares: i64,
    /// Memory limit in bytes; 0 none.
    pub memory_limit_bytes: i64,
    /// Memory and swap limit in bytes; 0 none.
    pub memory_swap_limit_bytes: i64,
    pub oom_score_adj: i64,
    pub cpuset_cpus: String,
    pub cpuset_mems: String,
    pub hugepages: Vec<HugepageLimit>,
    /// Raw cgroup v2 files.
    pub unified: BTreeMap<String, String>,
}

/// A limit on pages of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugepageLimit {
    /// Page size such as `2MB`.
    pub page_size: String,
    pub limit: u64,
}

/// Security settings of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerSecurity {
    pub capabilities: Capabilities,
    pub privileged: bool,
    pub namespaces: Namespaces,
    pub selinux: Option<SeLinuxOptions>,
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    /// User by name (from the image).
    pub run_as_username: String,
    /// Read-only root file system.
    pub readonly_rootfs: bool,
    pub supplemental_groups: Vec<i64>,
    /// How image groups are merged.
    pub supplemental_groups_policy: SupplementalGroupsPolicy,
    /// No new privileges through execve.
    pub no_new_privs: bool,
    pub masked_paths: Vec<String>,
    /// Read-only paths.
    pub readonly_paths: Vec<String>,
    pub seccomp: Option<SecurityProfile>,
    pub apparmor: Option<SecurityProfile>,
}

/// Capability changes against the runtime's default set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    pub add: Vec<String>,
    pub drop: Vec<String>,
}
