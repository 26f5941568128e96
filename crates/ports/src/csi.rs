//! The node service of CSI drivers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::CsiAccess;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CsiError {
    /// The driver's words with their code.
    pub message: String,
    /// gRPC's word for the code, such as `Internal`.
    pub code: String,
    /// Whether the driver is surely done with it; if not, the call is to be repeated or undone.
    pub is_final: bool,
}

/// What a driver says of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNodeInfo {
    /// The driver's name for the node.
    pub node_id: String,
    /// How many volumes it can have; 0 is no limit.
    pub most_volumes: i64,
    /// Where it is.
    pub topology: BTreeMap<String, String>,
}

/// What a driver can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a list of abilities that have nothing to do with each other"
)]
pub struct CsiCapabilities {
    /// Volumes are staged before they are published.
    pub stage: bool,
    /// It counts what volumes hold.
    pub stats: bool,
    /// Volumes can grow.
    pub expand: bool,
    /// It tells writers on one node apart.
    pub single_node_multi_writer: bool,
    /// It gives volumes to the pod's group itself.
    pub mount_group: bool,
    /// It knows whether volumes are well.
    pub condition: bool,
}

/// How a volume is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUse {
    /// As files or as a device.
    pub access: CsiAccess,
    /// Such as `ReadWriteOnce`.
    pub mode: String,
    /// [`CsiCapabilities::single_node_multi_writer`].
    pub single_node_multi_writer: bool,
    /// The group that the driver gives it to.
    pub group: Option<u32>,
}

/// Makes a volume ready on the node.
#[derive(Clone, PartialEq, Eq)]
pub struct Stage {
    /// The volume.
    pub handle: String,
    /// Where.
    pub staging: PathBuf,
    /// What the attachment says.
    pub publish_context: BTreeMap<String, String>,
    /// How it is used.
    pub use_as: VolumeUse,
    /// Secrets.
    pub secrets: BTreeMap<String, String>,
    /// What the driver made of the volume.
    pub attributes: BTreeMap<String, String>,
}

/// Makes a volume ready for a pod.
#[derive(Clone, PartialEq, Eq)]
pub struct Publish {
    /// The volume.
    pub handle: String,
    /// Where it was staged; of a device where it would have been.
    pub staging: Option<PathBuf>,
    /// Where the pod finds it.
    pub target: PathBuf,
    /// Whether it may only be read.
    pub read_only: bool,
    /// What the attachment says.
    pub publish_context: BTreeMap<String, String>,
    /// How it is used.
    pub use_as: VolumeUse,
    /// Secrets.
    pub secrets: BTreeMap<String, String>,
    /// What the driver made of the volume, and what it is told of the pod.
    pub attributes: BTreeMap<String, String>,
}

/// Lets a volume grow.
#[derive(Clone, PartialEq, Eq)]
pub struct Expand {
    /// The volume.
    pub handle: String,
    /// Where a pod finds it.
    pub path: PathBuf,
    /// Where it is staged, if the driver stages.
    pub staging: PathBuf,
    /// To this size.
    pub bytes: i64,
    /// How it is used.
    pub use_as: VolumeUse,
    /// Secrets.
    pub secrets: BTreeMap<String, String>,
}

/// What a volume holds, in bytes or in inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsiUsage {
    /// Inodes, not bytes.
    pub is_inodes: bool,
    /// What is left.
    pub available: i64,
    /// All.
    pub total: i64,
    /// What is used.
    pub used: i64,
}

/// What a driver says of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiVolumeState {
    /// What it holds.
    pub usage: Vec<CsiUsage>,
    /// Whether something is wrong with it, from a driver that knows.
    pub is_abnormal: Option<bool>,
    /// What, in the driver's words.
    pub message: String,
}

/// One driver. Every call has a deadline and may be repeated with the same outcome.
#[async_trait]
pub trait CsiNode: Send + Sync {
    /// What it says of the node.
    async fn info(&self) -> Result<CsiNodeInfo, CsiError>;
    /// What it can do.
    async fn capabilities(&self) -> Result<CsiCapabilities, CsiError>;
    /// Makes a volume ready on the node.
    async fn stage(&self, order: &Stage) -> Result<(), CsiError>;
    /// Undoes it.
    async fn unstage(&self, handle: &str, staging: &Path) -> Result<(), CsiError>;
    /// Makes a volume ready for a pod.
    async fn publish(&self, order: &Publish) -> Result<(), CsiError>;
    /// Undoes it.
    async fn unpublish(&self, handle: &str, target: &Path) -> Result<(), CsiError>;
    /// Lets a volume grow; the new size.
    async fn expand(&self, order: &Expand) -> Result<i64, CsiError>;
    /// What a volume holds, and how it is.
    async fn usage(&self, handle: &str, path: &Path) -> Result<CsiVolumeState, CsiError>;
}

/// Reaches drivers by their sockets.
pub trait CsiConnector: Send + Sync {
    /// The driver at this socket; connects when it is called.
    fn connect(&self, endpoint: &Path) -> Arc<dyn CsiNode>;
}
