//! Volumes of pods.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
pub use model::{HostPathKind, PlannedVolume, SubPath, VolumePlan, VolumeStep};
use model::{PodUid, VolumeLabel};

/// A volume that could not be set up or taken down.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The host's path is not of the asked type.
    #[error("hostPath type check failed: {} is not {expected}", path.display())]
    WrongType {
        /// The path.
        path: PathBuf,
        /// What was asked, in words such as `a directory`.
        expected: &'static str,
    },
    /// What was asked for cannot be done; the text says why.
    #[error("{0}")]
    Refused(String),
    /// A step before the last one cannot be done; the text says why.
    #[error("{reason}")]
    Step {
        /// Which.
        step: VolumeStep,
        /// Why.
        reason: String,
    },
    /// The disk cannot be mounted for the node, and holds another file system than the one asked for.
    #[error("{0}")]
    OtherFileSystem(String),
    /// The volume is not attached, because the node can have no more of its kind.
    #[error("{0}")]
    NodeIsFull(String),
    /// Containers of the pod, or its pod and another one, want SELinux labels that do not go together; the text says which.
    #[error("{0}")]
    NoLabel(String),
    /// Another pod has the volume, which is named, mounted with another SELinux label.
    #[error(
        "waiting for unmount of volume {0:?}, because it is already mounted to a different pod with a different SELinux \
         label"
    )]
    OtherLabel(String),
    /// Another operation on the pod's volumes has not come to its end.
    #[error("an earlier operation on the volumes of the pod is still in progress")]
    InProgress,
    /// It took too long; it goes on behind the scenes.
    #[error("timed out after {}s", .0.as_secs())]
    TimedOut(std::time::Duration),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] crate::pod_folders::FileError),
}

impl VolumeError {
    /// Which step failed.
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

    /// The whole story in one line, for events.
    #[must_use]
    pub fn text(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// How far a set-up has come; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Counts one file that was given to the pod's group.
    pub fn count_file(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Files counted so far.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the journal of mounts said when the agent started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountReport {
    /// Mounts written down and there.
    pub live: usize,
    /// Mounts written down that are not there.
    pub stale: usize,
    /// Mounts that are there and were not written down.
    pub adopted: usize,
}

/// Makes volumes ready and removes them. No call hangs: one that takes too long fails, and only its own pod waits
/// for what goes on behind the scenes. Every call may be repeated.
#[async_trait]
pub trait PodVolumes: Send + Sync {
    /// Makes one volume ready; a volume that is ready already (also from before an agent restart) is left as
    /// it is, with its content. A volume of files is brought in line with its plan: readers see all old files or
    /// all new ones, and unchanged content is not written again.
    async fn set_up(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        progress: &Progress,
    ) -> Result<(), VolumeError>;

    /// Whether a volume of a pod is mounted, or its device linked. Nothing is changed.
    async fn is_there(&self, volume: &PlannedVolume) -> Result<bool, VolumeError>;

    /// What SELinux labels have to do with a volume as this pod has it mounted; `None` while it is not.
    async fn mounted_label(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
    ) -> Result<Option<VolumeLabel>, VolumeError>;

    /// Lets the file system of a ready volume follow its disk, which has grown from `sizes.0` to `sizes.1` bytes. A volume
    /// of which the size is nobody's concern here is left alone.
    async fn grow(&self, uid: &PodUid, volume: &PlannedVolume, sizes: (i64, i64)) -> Result<(), VolumeError>;

    /// Binds a part of a ready volume for one container, resolved below the volume whatever its content does
    /// meanwhile. What is bound there already is kept if it is the same.
    async fn bind_sub_path(&self, uid: &PodUid, part: &SubPath) -> Result<PathBuf, VolumeError>;

    /// Brings the journal of mounts in line with what is mounted; called once, before anything else.
    async fn reconcile_mounts(&self) -> Result<MountReport, VolumeError>;

    /// Unmounts and empties every volume below `pods/<uid>/volumes`. Never touches what a hostPath names and
    /// never deletes across a mount.
    async fn tear_down(&self, uid: &PodUid) -> Result<(), VolumeError>;
}
