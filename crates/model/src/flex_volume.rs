use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{CsiPod, CsiSize, VolumeSecret};

/// A volume of a FlexVolume driver, as one pod uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlexVolume {
    /// Volume folder.
    pub path: PathBuf,
    /// The PersistentVolume's name; of a pod's own volume its name there.
    pub name: String,
    /// The driver, as `vendor/driver`.
    pub driver: String,
    /// File system; empty is the driver's choice.
    pub fs_type: String,
    /// Whether containers may only read it.
    pub read_only: bool,
    /// What the driver is told besides.
    pub options: BTreeMap<String, String>,
    /// What it is told in secret.
    pub secret: VolumeSecret,
    /// The pod that uses it.
    pub pod: CsiPod,
    /// Where a controller has attached it, once it has.
    pub device: Option<String>,
    /// Sizes, for a volume that a claim names.
    pub size: Option<CsiSize>,
}
