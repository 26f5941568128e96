//! Lists and statuses of the runtime, independent of the CRI messages.

use std::collections::BTreeMap;

use crate::{ContainerId, LinuxResources, NamespaceMode, PodUid, SandboxId, Timestamp};

/// Life of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SandboxState {
    /// Usable.
    Ready,
    /// Stopped or dead.
    NotReady,
}

/// Life of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerState {
    /// Made, never started.
    Created,
    /// Its process runs.
    Running,
    /// Its process ended.
    Exited,
    /// The runtime does not know.
    Unknown,
}

/// One sandbox in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSummary {
    pub id: SandboxId,
    /// Pod UID by label.
    pub pod_uid: PodUid,
    pub pod_name: String,
    pub pod_namespace: String,
    pub attempt: u32,
    pub state: SandboxState,
    pub created_at: Timestamp,
}

/// One container in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSummary {
    pub id: ContainerId,
    pub sandbox_id: SandboxId,
    /// Pod UID by label.
    pub pod_uid: PodUid,
    pub pod_name: String,
    pub pod_namespace: String,
    pub name: String,
    pub attempt: u32,
    pub state: ContainerState,
    pub created_at: Timestamp,
}

/// Everything about one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxStatus {
    pub id: SandboxId,
    pub attempt: u32,
    pub state: SandboxState,
    pub created_at: Timestamp,
    /// Addresses, the primary one first; `None` where the runtime does not report them.
    pub ips: Option<Vec<String>>,
    /// Network namespace mode it was created with.
    pub network: NamespaceMode,
    pub runtime_handler: String,
}

impl SandboxStatus {
    /// Whether the runtime says that it has no address, rather than nothing.
    pub fn lacks_address(&self) -> bool {
        self.ips.as_ref().is_some_and(Vec::is_empty)
    }
}

/// Everything about one container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStatus {
    pub id: ContainerId,
    /// Its sandbox, where the list said so.
    pub sandbox_id: SandboxId,
    pub name: String,
    /// Attempt in the runtime's metadata.
    pub attempt: u32,
    pub state: ContainerState,
    pub created_at: Timestamp,
    /// Start time; zero if never.
    pub started_at: Timestamp,
    /// End time; zero if still alive.
    pub finished_at: Timestamp,
    /// Exit code; meaningful once exited.
    pub exit_code: i32,
    /// Image name as the runtime shows it.
    pub image: String,
    pub image_ref: String,
    pub image_id: String,
    /// The runtime handler its image is for, where the runtime says so.
    pub image_handler: String,
    /// Short reason such as `OOMKilled`.
    pub reason: String,
    pub message: String,
    /// The annotations it was created with.
    pub annotations: BTreeMap<String, String>,
    pub log_path: String,
    /// Mounts: container path to host path.
    pub mounts: Vec<(String, String)>,
    /// Images that are mounted: container path to image, as it was named or, where that is shown, as its id.
    pub image_mounts: Vec<(String, String)>,
    /// Limits in force, where the runtime says so.
    pub resources: Option<LinuxResources>,
    /// Process id in the host's pid namespace, where the verbose status names it.
    pub pid: Option<u32>,
    /// The user its first process was started as, where the runtime says so.
    pub user: Option<ContainerUser>,
    /// The signal that stops it, such as `SIGTERM`, where the runtime says so.
    pub stop_signal: Option<String>,
}

/// User and groups of a container's first process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerUser {
    pub uid: i64,
    pub gid: i64,
    pub supplemental_groups: Vec<i64>,
}

/// The result of a command in a container, with the first 10 KiB of each output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    pub exit_code: i32,
    pub stdout: Vec<u8>,
    /// What it printed to stderr.
    pub stderr: Vec<u8>,
}

/// Kinds of runtime events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeEventKind {
    Created,
    Started,
    Stopped,
    Deleted,
}

/// One message of the runtime's event stream: only a hint that a pod should be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeEvent {
    pub container_id: ContainerId,
    pub kind: RuntimeEventKind,
    /// When the runtime made the event.
    pub created_at: Timestamp,
    /// The pod, where the event names it.
    pub pod_uid: Option<PodUid>,
}

/// Who the runtime is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// Name such as `containerd`.
    pub name: String,
    pub version: String,
    pub api_version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeCondition {
    pub status: bool,
    /// Reason when it does not.
    pub reason: String,
    /// Message when it does not.
    pub message: String,
}

/// Whether the runtime and its network are ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConditions {
    /// `RuntimeReady`; absent when the runtime did not report it.
    pub runtime: Option<RuntimeCondition>,
    /// `NetworkReady`; absent when the runtime did not report it.
    pub network: Option<RuntimeCondition>,
    /// The runtime's handlers; empty when it did not name them.
    pub handlers: Vec<RuntimeHandler>,
    /// Whether it honours `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
    /// Whether host-network pods can have a user namespace.
    pub user_namespaces_host_network: bool,
}

/// A handler that a `RuntimeClass` may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeHandler {
    /// Its name; empty for the default one.
    pub name: String,
    /// Whether it can make mounts read-only with everything below them.
    pub recursive_read_only_mounts: bool,
    /// Whether it can run pods in user namespaces.
    pub user_namespaces: bool,
}

/// Where images and writable layers lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFilesystems {
    pub images: Vec<FilesystemUsage>,
    /// Writable layers, if they are on a separate file system.
    pub containers: Vec<FilesystemUsage>,
}

/// Use of a file system by the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    pub mount_point: std::path::PathBuf,
    /// Bytes in use by the runtime.
    pub used_bytes: u64,
    /// Inodes in use by the runtime.
    pub inodes_used: u64,
}

/// Who manages cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Plain folders.
    Cgroupfs,
    /// systemd slices.
    Systemd,
}

/// A local image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageStatus {
    pub id: String,
    pub repo_tags: Vec<String>,
    pub repo_digests: Vec<String>,
    pub size: u64,
    /// Numeric user of the image, where set.
    pub uid: Option<i64>,
    /// User name of the image, where not numeric.
    pub username: String,
    pub pinned: bool,
    /// The runtime handler it is for, where the runtime says so.
    pub runtime_handler: String,
}
