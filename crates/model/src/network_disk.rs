//! Disks that other machines offer.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::SecretReference;

/// How containers see a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskUse {
    Files {
        /// File system; a disk without one gets it.
        fs_type: String,
        /// Additional mount options.
        options: Vec<String>,
    },
    /// As a block device.
    Device,
}

/// A disk that an iSCSI target offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiDisk {
    /// Volume folder; of a device its link in the pod's folder.
    pub path: PathBuf,
    /// The PersistentVolume's name; of a pod's own volume its name there.
    pub name: String,
    /// Addresses of the target with their ports, the one that names the disk first.
    pub portals: Vec<String>,
    pub target: String,
    pub lun: i32,
    /// Interface of the initiator that sessions use, such as `default`.
    pub interface: String,
    /// An initiator of the volume's own.
    pub initiator: Option<OwnInitiator>,
    /// CHAP credentials.
    pub chap: Chap,
    /// How the node's status knows it, where a controller says which node may have it.
    pub attachment: String,
    pub use_as: DiskUse,
    /// Whether containers may only read it.
    pub read_only: bool,
}

/// A disk of a Fibre Channel network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FcDisk {
    /// Volume folder; of a device its link in the pod's folder.
    pub path: PathBuf,
    pub name: FcName,
    /// How the node's status knows it, where a controller says which node may have it.
    pub attachment: String,
    pub use_as: DiskUse,
    /// Whether containers may only read it.
    pub read_only: bool,
}

/// The identifiers of a Fibre Channel disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FcName {
    /// By who offers it.
    Targets {
        /// World wide names of targets that lead to it.
        names: Vec<String>,
        lun: i32,
    },
    /// By world wide identifiers of the disk, with underscores for spaces.
    Ids(Vec<String>),
}

impl FcName {
    /// The name of its folder, as upstream makes it.
    pub fn folder(&self) -> String {
        match self {
            Self::Targets { names, lun } => format!("{}-lun-{lun}", names.join("-")),
            Self::Ids(ids) => ids.join("-"),
        }
    }

    /// The disk of a folder.
    pub fn of_folder(name: &str) -> Option<Self> {
        let words: Vec<String> = name.split('-').map(str::to_owned).collect();
        match words.as_slice() {
            [names @ .., word, lun] if word == "lun" => {
                let lun = lun.parse().ok()?;
                (!names.is_empty()).then(|| Self::Targets { names: names.to_vec(), lun })
            }
            ids => Some(Self::Ids(ids.to_vec())),
        }
    }
}

/// An initiator that a volume brings along: an interface is made for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnInitiator {
    pub name: String,
    /// The interface that has all other settings.
    pub model: String,
}

/// Where a target wants to know who logs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chap {
    /// CHAP during discovery.
    pub discovery: bool,
    pub session: bool,
    pub secret: VolumeSecret,
}

/// The content of a secret that a volume names.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum VolumeSecret {
    /// None is named.
    #[default]
    NotNeeded,
    /// It has not been read.
    Requested(SecretReference),
    /// It cannot be read: why. A volume that is there already does without.
    Missing(String),
    Given(BTreeMap<String, String>),
}

/// Secrets do not belong into logs, hence keys only.
impl fmt::Debug for VolumeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeeded => f.write_str("NotNeeded"),
            Self::Requested(reference) => f.debug_tuple("Requested").field(reference).finish(),
            Self::Missing(reason) => f.debug_tuple("Missing").field(reason).finish(),
            Self::Given(content) => f.debug_tuple("Given").field(&content.keys()).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let given = VolumeSecret::Given([("user".to_owned(), "hidden".to_owned())].into());
        assert_eq!(format!("{given:?}"), "Given([\"user\"])");
    }
}
