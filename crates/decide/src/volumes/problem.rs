use std::fmt;

use super::set_up_failed;

/// A volume that cannot be planned; the text is the whole message of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeProblem {
    /// The kind is one this agent cannot set up.
    UnsupportedKind {
        /// Volume name.
        volume: String,
        /// The field of the volume, such as `nfs`.
        kind: &'static str,
    },
    /// What the volume stands for cannot be found or used.
    Unprocessed {
        /// Volume name in the pod.
        volume: String,
        /// Why.
        reason: String,
    },
    /// Another pod has the volume in a way that this one cannot have it.
    HeldByAnother {
        /// Volume name in the pod.
        volume: String,
        /// Why.
        reason: String,
    },
    /// A PersistentVolume of a kind that is not mounted has options for it.
    NoMountOptions {
        /// Name of the PersistentVolume.
        volume: String,
    },
    /// A PersistentVolume that cannot be reached from this node.
    OfAnotherNode {
        /// Name of the PersistentVolume.
        volume: String,
        /// Whether it is used as a device.
        is_device: bool,
    },
    /// The volume's fields do not allow a set-up.
    Invalid {
        /// Volume name.
        volume: String,
        /// Why.
        reason: String,
    },
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
