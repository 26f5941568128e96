//! Volumes of pods.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
pub use model::{HostPathKind, PlannedVolume, SubPath, VolumePlan, VolumeStep};
use model::{PodUid, VolumeLabel};

/// A volume that could not be set up or torn down.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The hostPath is not of the requested type.
    #[error("hostPath type check failed: {} is not {expected}", path.display())]
    WrongType {
        /// The path.
        path: PathBuf,
        /// The requested type, such as `a directory`.
        expected: &'static str,
    },
    /// The volume cannot be set up; the text has the reason.
    #[error("{0}")]
    Refused(String),
    /// An earlier step than the setup failed; the text has the reason.
    #[error("{reason}")]
    Step {
        /// The failed step.
        step: VolumeStep,
        /// The reason.
        reason: String,
    },
    /// The disk cannot be mounted, because it has another file system than the requested one.
    #[error("{0}")]
    OtherFileSystem(String),
    /// The volume cannot be attached, because the node has reached its limit.
    #[error("{0}")]
    NodeIsFull(String),
    /// Containers of the pod, or two pods, request conflicting SELinux labels; the text names them.
    #[error("{0}")]
    NoLabel(String),
    /// Another pod has mounted this volume with another SELinux label.
    #[error(
        "waiting for unmount of volume {0:?}, because it is already mounted to a different pod with a different SELinux \
         label"
    )]
    OtherLabel(String),
    /// An earlier operation on the pod's volumes is still running.
    #[error("an earlier operation on the volumes of the pod is still in progress")]
    InProgress,
    /// The operation timed out and continues in the background.
    #[error("timed out after {}s", .0.as_secs())]
    TimedOut(std::time::Duration),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] crate::host::pod_folders::FileError),
}

impl VolumeError {
    /// The failed step.
    #[must_use]
    pub fn step(&self) -> VolumeStep {
        match self {
            Self::Step { step, .. } => *step,
            Self::NodeIsFull(_) => VolumeStep::WaitForAttach,
            Self::OtherFileSystem(_) => VolumeStep::MountDevice,
            Self::WrongType { .. }
            | Self::Refused(_)
            | Self::NoLabel(_)
            | Self::OtherLabel(_)
            | Self::InProgress
            | Self::TimedOut(_)
            | Self::File(_) => VolumeStep::SetUp,
        }
    }

    /// The error with its source in one line, for events.
    #[must_use]
    pub fn text(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// The result of an operation on volumes.
pub type VolumeResult<T = ()> = Result<T, VolumeError>;

/// Progress of a setup; clones share the counter.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Counts one file whose group was changed.
    pub fn count_file(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Files counted so far.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Result of reconciling the mount journal at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountReport {
    /// Journaled mounts that exist.
    pub live: usize,
    /// Journaled mounts that do not exist.
    pub stale: usize,
    /// Mounts that exist without a journal entry.
    pub adopted: usize,
}

/// Sets up volumes and tears them down. Every call has a deadline; an operation that times out continues in the background
/// and blocks only its own pod. Every call is idempotent.
#[async_trait]
pub trait PodVolumes: Send + Sync {
    /// Sets up one volume. A volume that is already set up, also by an earlier run of the agent, keeps its content. Projected
    /// files are updated to the plan: readers see all old or all new files, and unchanged content is not written again.
    async fn set_up(&self, uid: &PodUid, volume: &PlannedVolume, progress: &Progress) -> VolumeResult;

    /// Whether a volume of a pod is mounted, or its device linked.
    async fn is_set_up(&self, volume: &PlannedVolume) -> VolumeResult<bool>;

    /// The SELinux label of a volume as mounted for this pod; `None` while it is not mounted.
    async fn mounted_label(&self, uid: &PodUid, volume: &PlannedVolume) -> VolumeResult<Option<VolumeLabel>>;

    /// Grows the file system of a volume whose disk has grown from `sizes.0` to `sizes.1` bytes. Does nothing for volumes that
    /// the node does not resize.
    async fn grow(&self, uid: &PodUid, volume: &PlannedVolume, sizes: (i64, i64)) -> VolumeResult;

    /// Bind-mounts a subPath of a volume for one container. The path is resolved beneath the volume even if its content changes
    /// meanwhile. An existing mount of the same target is kept.
    async fn bind_sub_path(&self, uid: &PodUid, part: &SubPath) -> VolumeResult<PathBuf>;

    /// Reconciles the mount journal with the mount table; called once, before anything else.
    async fn reconcile_mounts(&self) -> VolumeResult<MountReport>;

    /// Unmounts and empties every volume below `pods/<uid>/volumes`. Never touches the target of a hostPath and never deletes
    /// across a mount.
    async fn tear_down(&self, uid: &PodUid) -> VolumeResult;
}
