use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::PodUid;

/// A volume of a CSI driver as one pod uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiVolume {
    /// The path that containers mount: the folder `mount` of the volume, or the link to the device.
    pub path: PathBuf,
    /// Name of the PersistentVolume, or of the inline volume in the pod.
    pub spec_name: String,
    pub driver: String,
    /// The driver's ID of the volume.
    pub handle: String,
    pub lifecycle: CsiLifecycle,
    pub access: CsiAccess,
    /// Whether it is published read-only.
    pub read_only: bool,
    /// Such as `ReadWriteOnce`; empty for an inline volume.
    pub access_modes: Vec<String>,
    /// Volume attributes, passed on to the driver.
    pub attributes: BTreeMap<String, String>,
    pub stage_secret: Option<SecretReference>,
    pub publish_secret: Option<SecretReference>,
    pub expand_secret: Option<SecretReference>,
    pub pod: CsiPod,
    /// Set for a claimed volume.
    pub size: Option<CsiSize>,
}

/// Lifecycle of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsiLifecycle {
    /// Exists independently of the pod.
    Persistent,
    /// Created by the driver for the pod.
    Ephemeral,
}

/// How containers see a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsiAccess {
    Files {
        /// Such as `ext4`; empty for the driver's default.
        fs_type: String,
        /// Mount options.
        options: Vec<String>,
    },
    /// As a block device.
    Block,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretReference {
    pub namespace: String,
    pub name: String,
}

/// Pod information for drivers with `podInfoOnMount`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiPod {
    pub name: String,
    pub namespace: String,
    /// UID.
    pub uid: PodUid,
    pub service_account: String,
}

/// The sizes of a claimed volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiSize {
    pub namespace: String,
    pub claim: String,
    /// The claim's UID.
    pub uid: String,
    /// Capacity of the PersistentVolume in bytes.
    pub requested: i64,
    /// Capacity in the status of the claim, in bytes.
    pub known: i64,
    /// The new capacity as text, for the status of the claim.
    pub wanted_text: String,
    /// Requested size of the claim in bytes.
    pub asked: i64,
    /// `allocatedResources` of the claim, in bytes and as text, if the controller sets it.
    pub allocated: Option<(i64, String)>,
    /// Resize status of the claim, such as `NodeResizePending`; empty when idle.
    pub state: String,
    /// Whether several nodes may write the volume; then each node grows its own file system.
    pub grows_on_each_node: bool,
}
