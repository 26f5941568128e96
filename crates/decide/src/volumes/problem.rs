use std::fmt;

use super::set_up_failed;

/// A volume that cannot be planned. The text is the message of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeProblem {
    /// The kind is not supported.
    UnsupportedKind {
        volume: String,
        /// The field of the volume, such as `nfs`.
        kind: &'static str,
    },
    /// The claim or its PersistentVolume cannot be read or used.
    Unprocessed {
        /// Volume name in the pod.
        volume: String,
        reason: String,
    },
    /// Another pod uses the volume in a conflicting way.
    HeldByAnother {
        /// Volume name in the pod.
        volume: String,
        reason: String,
    },
    /// Mount options are set for a kind that is not mounted.
    NoMountOptions { volume: String },
    /// The node affinity of the PersistentVolume excludes this node.
    OfAnotherNode {
        volume: String,
        /// Whether it is used as a block device.
        is_device: bool,
    },
    /// The fields of the volume are invalid.
    Invalid { volume: String, reason: String },
}

impl fmt::Display for VolumeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedKind { volume, kind } => write!(
                f,
                "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], failed to \
                 process volumes=[{volume}]: failed to get Plugin from volumeSpec for volume {volume:?} err=no volume \
                 plugin matched ({kind})"
            ),
            Self::Unprocessed { volume, reason } => write!(
                f,
                "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], failed to \
                 process volumes=[{volume}]: {reason}"
            ),
            Self::HeldByAnother { volume, reason } => write!(
                f,
                "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], failed to \
                 process volumes=[]: {reason}"
            ),
            Self::NoMountOptions { volume } => write!(
                f,
                "MountVolume.MountOptionSupport check failed for volume {volume:?} : Mount options are not supported \
                 for this volume type"
            ),
            Self::OfAnotherNode { volume, is_device } => {
                let verb = if *is_device { "MapVolume" } else { "MountVolume" };
                write!(
                    f,
                    "{verb}.NodeAffinity check failed for volume {volume:?} : no matching NodeSelectorTerms"
                )
            }
            Self::Invalid { volume, reason } => f.write_str(&set_up_failed(volume, reason)),
        }
    }
}

impl std::error::Error for VolumeProblem {}
