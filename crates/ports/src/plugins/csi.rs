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
    /// The driver's message with its gRPC code.
    pub message: String,
    /// The gRPC code, such as `Internal`.
    pub code: String,
    /// Whether the operation certainly had no effect. Otherwise it must be retried or undone.
    pub is_final: bool,
}

/// A driver's description of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiNodeInfo {
    /// The driver's ID of the node.
    pub node_id: String,
    /// Maximum number of volumes; 0 for no limit.
    pub max_volumes: i64,
    /// Topology segments of the node.
    pub topology: BTreeMap<String, String>,
}

/// Capabilities of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a list of independent capabilities")]
pub struct CsiCapabilities {
    /// Volumes are staged before they are published.
    pub stage: bool,
    /// It reports the use of volumes.
    pub stats: bool,
    /// Volumes can grow.
    pub expand: bool,
    /// It supports the single-node multi-writer access modes.
    pub single_node_multi_writer: bool,
    /// It applies the fsGroup.
    pub mount_group: bool,
    /// It reports the condition of volumes.
    pub condition: bool,
}

/// How a volume is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUse {
    /// File system or block device.
    pub access: CsiAccess,
    /// The access mode, such as `ReadWriteOnce`.
    pub mode: String,
    /// [`CsiCapabilities::single_node_multi_writer`].
    pub single_node_multi_writer: bool,
    /// The fsGroup that the driver applies.
    pub group: Option<u32>,
}

/// Arguments of NodeStageVolume.
#[derive(Clone, PartialEq, Eq)]
pub struct Stage {
    /// ID of the volume.
    pub handle: String,
    /// Staging path.
    pub staging: PathBuf,
    /// Metadata of the VolumeAttachment.
    pub publish_context: BTreeMap<String, String>,
    /// Requested use.
    pub use_as: VolumeUse,
    /// Secrets for the driver.
    pub secrets: BTreeMap<String, String>,
    /// Attributes of the volume.
    pub attributes: BTreeMap<String, String>,
}

/// Arguments of NodePublishVolume.
#[derive(Clone, PartialEq, Eq)]
pub struct Publish {
    /// ID of the volume.
    pub handle: String,
    /// Staging path.
    pub staging: Option<PathBuf>,
    /// Target path in the pod's folder.
    pub target: PathBuf,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Metadata of the VolumeAttachment.
    pub publish_context: BTreeMap<String, String>,
    /// Requested use.
    pub use_as: VolumeUse,
    /// Secrets for the driver.
    pub secrets: BTreeMap<String, String>,
    /// Attributes of the volume and, if the driver requests it, of the pod.
    pub attributes: BTreeMap<String, String>,
}

/// Arguments of NodeExpandVolume.
#[derive(Clone, PartialEq, Eq)]
pub struct Expand {
    /// ID of the volume.
    pub handle: String,
    /// Path of the published volume.
    pub path: PathBuf,
    /// Staging path, if the driver stages.
    pub staging: PathBuf,
    /// Requested size.
    pub bytes: i64,
    /// Requested use.
    pub use_as: VolumeUse,
    /// Secrets for the driver.
    pub secrets: BTreeMap<String, String>,
}

/// Use of a volume, in bytes or inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsiUsage {
    /// Whether the values are inodes instead of bytes.
    pub is_inodes: bool,
    /// Free.
    pub available: i64,
    /// Total.
    pub total: i64,
    /// Used.
    pub used: i64,
}

/// Use and condition of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsiVolumeState {
    /// Use, by unit.
    pub usage: Vec<CsiUsage>,
    /// Whether the volume is abnormal, if the driver reports conditions.
    pub is_abnormal: Option<bool>,
    /// The driver's description of the condition.
    pub message: String,
}

/// The node service of one driver. Every call has a deadline and is idempotent.
#[async_trait]
pub trait CsiNode: Send + Sync {
    /// NodeGetInfo.
    async fn info(&self) -> Result<CsiNodeInfo, CsiError>;
    /// NodeGetCapabilities.
    async fn capabilities(&self) -> Result<CsiCapabilities, CsiError>;
    /// NodeStageVolume.
    async fn stage(&self, order: &Stage) -> Result<(), CsiError>;
    /// NodeUnstageVolume.
    async fn unstage(&self, handle: &str, staging: &Path) -> Result<(), CsiError>;
    /// NodePublishVolume.
    async fn publish(&self, order: &Publish) -> Result<(), CsiError>;
    /// NodeUnpublishVolume.
    async fn unpublish(&self, handle: &str, target: &Path) -> Result<(), CsiError>;
    /// NodeExpandVolume; returns the new size.
    async fn expand(&self, order: &Expand) -> Result<i64, CsiError>;
    /// NodeGetVolumeStats.
    async fn usage(&self, handle: &str, path: &Path) -> Result<CsiVolumeState, CsiError>;
}

/// Connects to drivers.
pub trait CsiConnector: Send + Sync {
    /// A client of the driver at this socket; connects on the first call.
    fn connect(&self, endpoint: &Path) -> Arc<dyn CsiNode>;
}
