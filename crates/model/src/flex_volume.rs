use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{CsiPod, CsiSize, VolumeSecret};

/// A volume of a FlexVolume driver, as one pod uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlexVolume {
    pub path: PathBuf,
    /// Name of the PersistentVolume, or of the volume in the pod.
    pub name: String,
    /// `vendor/driver`.
    pub driver: String,
    /// File system; empty for the driver's default.
    pub fs_type: String,
    pub read_only: bool,
    pub options: BTreeMap<String, String>,
    pub secret: VolumeSecret,
    pub pod: CsiPod,
    /// Device path, once a controller has attached the volume.
    pub device: Option<String>,
    /// Set for a claimed volume.
    pub size: Option<CsiSize>,
}
