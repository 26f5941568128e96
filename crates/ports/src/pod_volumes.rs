//! Volumes of pods.

use std::path::PathBuf;

use async_trait::async_trait;
use model::PodUid;
pub use model::{HostPathKind, VolumePlan};

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
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] crate::pod_folders::FileError),
}

/// Makes volumes ready and removes them. Every call may be repeated.
#[async_trait]
pub trait PodVolumes: Send + Sync {
    /// Makes one volume ready; a volume that is ready already (also from before an agent restart) is left as
    /// it is, with its content.
    async fn set_up(&self, uid: &PodUid, plan: &VolumePlan) -> Result<(), VolumeError>;

    /// Unmounts and empties every volume below `pods/<uid>/volumes`. Never touches what a hostPath names and
    /// never deletes across a mount.
    async fn tear_down(&self, uid: &PodUid) -> Result<(), VolumeError>;
}
