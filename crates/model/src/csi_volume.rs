use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::PodUid;

/// A volume of a CSI driver as one pod uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiVolume {
    /// What containers are given: the folder `mount` of the volume, or the link to the device.
    pub path: PathBuf,
    /// The PersistentVolume's name; of an inline volume its name in the pod.
    pub spec_name: String,
    /// The driver's name.
    pub driver: String,
    /// The driver's name for the volume.
    pub handle: String,
    /// Who made the volume.
    pub lifecycle: CsiLifecycle,
    /// How containers see it.
    pub access: CsiAccess,
    /// Whether it is published read-only.
    pub read_only: bool,
    /// Such as `ReadWriteOnce`; none for an inline volume.
    pub access_modes: Vec<String>,
    /// What the driver made of the volume, handed through.
    pub attributes: BTreeMap<String, String>,
    /// Secrets for staging.
    pub stage_secret: Option<SecretReference>,
    /// Secrets for publishing.
    pub publish_secret: Option<SecretReference>,
    /// Secrets for growing.
    pub expand_secret: Option<SecretReference>,
    /// The pod that uses it.
    pub pod: CsiPod,
    /// Sizes, for a volume that a claim names.
    pub size: Option<CsiSize>,
}

/// Who made a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsiLifecycle {
    /// It exists without the pod.
    Persistent,
    /// The driver makes it for the pod.
    Ephemeral,
}

/// How containers see a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsiAccess {
    /// As files.
    Files {
        /// Such as `ext4`; empty is the driver's choice.
        fs_type: String,
        /// What `mount -o` is told.
        options: Vec<String>,
    },
    /// As a block device.
    Block,
}

/// A secret by its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretReference {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// What a driver may be told about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiPod {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// UID.
    pub uid: PodUid,
    /// Its service account.
    pub service_account: String,
}

/// The sizes of a claimed volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiSize {
    /// The claim's namespace.
    pub namespace: String,
    /// The claim's name.
    pub claim: String,
    /// The claim's UID.
    pub uid: String,
    /// Bytes that the PersistentVolume has.
    pub wanted: i64,
    /// Bytes that the claim knows of.
    pub known: i64,
    /// What is written to the claim when the volume has grown.
    pub wanted_text: String,
    /// Bytes that the claim asks for.
    pub asked: i64,
    /// What the controller has granted, in bytes and as it is written; none by a controller that does not say.
    pub granted: Option<(i64, String)>,
    /// How far the controller is, such as `NodeResizePending`; empty when nothing goes on.
    pub state: String,
    /// Several nodes may write the volume, and each of them has its own view of how large it is.
    pub grows_on_each_node: bool,
}
