use super::set_up_failed;

/// A volume that cannot be planned. The text is the message of the event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeProblem {
    /// The kind is not supported. `kind` is the field of the volume, such as `nfs`.
    #[error(
        "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], failed to process \
         volumes=[{volume}]: failed to get Plugin from volumeSpec for volume {volume:?} err=no volume plugin matched \
         ({kind})"
    )]
    UnsupportedKind { volume: String, kind: &'static str },
    /// The claim or its PersistentVolume cannot be read or used. `volume` is the name in the pod.
    #[error(
        "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], failed to process \
         volumes=[{volume}]: {reason}"
    )]
    Unprocessed { volume: String, reason: String },
    /// Another pod uses the volume in a conflicting way. `volume` is the name in the pod.
    #[error(
        "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], failed to process \
         volumes=[]: {reason}"
    )]
    HeldByAnother { volume: String, reason: String },
    /// Mount options are set for a kind that is not mounted.
    #[error(
        "MountVolume.MountOptionSupport check failed for volume {volume:?} : Mount options are not supported for this \
         volume type"
    )]
    NoMountOptions { volume: String },
    /// The node affinity of the PersistentVolume excludes this node.
    #[error(
        "{}.NodeAffinity check failed for volume {volume:?} : no matching NodeSelectorTerms",
        if *is_device { "MapVolume" } else { "MountVolume" }
    )]
    OfAnotherNode { volume: String, is_device: bool },
    /// The fields of the volume are invalid.
    #[error("{}", set_up_failed(volume, reason))]
    Invalid { volume: String, reason: String },
}
