//! How a pod's volumes are made ready.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, HostPathVolumeSource, Volume};
use model::{HostPathKind, NodeSettings, PlannedVolume, Pod, VolumePlan};

use crate::pod_paths::PodPaths;
use crate::quantity::Amount;
use crate::resources::pod_memory_limit;

const EMPTY_DIR_PLUGIN: &str = "kubernetes.io/empty-dir";

/// A volume that cannot be planned; names the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeProblem {
    /// The kind is one this agent cannot set up.
    UnsupportedKind {
        /// Volume name.
        volume: String,
        /// The field of the volume, such as `nfs`.
        kind: &'static str,
    },
    /// An emptyDir on a medium this agent cannot set up.
    UnsupportedMedium {
        /// Volume name.
        volume: String,
        /// The medium.
        medium: String,
    },
    /// A hostPath type nobody knows.
    UnknownHostPathType {
        /// Volume name.
        volume: String,
        /// The type.
        kind: String,
    },
    /// A hostPath that climbs.
    HostPathClimbs {
        /// Volume name.
        volume: String,
        /// The path.
        path: PathBuf,
    },
}

impl fmt::Display for VolumeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedKind { volume, kind } => {
                write!(f, "volume {volume:?}: {kind} is not supported yet")
            }
            Self::UnsupportedMedium { volume, medium } => {
                write!(f, "volume {volume:?}: emptyDir medium {medium:?} is not supported yet")
            }
            Self::UnknownHostPathType { volume, kind } => {
                write!(f, "volume {volume:?}: unknown hostPath type {kind:?}")
            }
            Self::HostPathClimbs { volume, path } => {
                write!(f, "volume {volume:?}: hostPath {path:?} must not contain \"..\"")
            }
        }
    }
}

impl std::error::Error for VolumeProblem {}

/// Plans all volumes of a pod, in the order of its spec.
///
/// # Errors
/// At the first volume that this agent cannot set up.
pub fn plan_volumes(pod: &Pod, settings: &NodeSettings) -> Result<Vec<PlannedVolume>, VolumeProblem> {
    pod.spec
        .volumes
        .iter()
        .flatten()
        .map(|volume| Ok(PlannedVolume { name: volume.name.clone(), plan: plan(pod, volume, settings)? }))
        .collect()
}

fn plan(pod: &Pod, volume: &Volume, settings: &NodeSettings) -> Result<VolumePlan, VolumeProblem> {
    if let Some(kind) = unsupported_kind(volume) {
        return Err(VolumeProblem::UnsupportedKind { volume: volume.name.clone(), kind });
    }
    if let Some(source) = &volume.host_path {
        return host_path(volume, source);
    }
    let path = PodPaths::new(settings).volume_dir(&pod.uid, EMPTY_DIR_PLUGIN, &volume.name);
    // A volume without any source is an emptyDir.
    let source = volume.empty_dir.clone().unwrap_or_default();
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(VolumePlan::EmptyDir { path }),
        "Memory" => Ok(VolumePlan::MemoryDir { path, size_limit: memory_size(pod, &source, settings) }),
        medium => {
            Err(VolumeProblem::UnsupportedMedium { volume: volume.name.clone(), medium: medium.to_owned() })
        }
    }
}

/// The least of the volume's limit, the pod's memory limit and the node's memory, where they are above zero.
fn memory_size(pod: &Pod, source: &EmptyDirVolumeSource, settings: &NodeSettings) -> Option<u64> {
    let of_volume = source.size_limit.as_ref().map(|limit| Amount::of(limit).units());
    let asked = [of_volume, pod_memory_limit(pod)].into_iter().flatten();
    asked
        .filter_map(|bytes| u64::try_from(bytes).ok())
        .chain([settings.memory_capacity])
        .filter(|bytes| *bytes > 0)
        .min()
}

fn host_path(volume: &Volume, source: &HostPathVolumeSource) -> Result<VolumePlan, VolumeProblem> {
    let path = PathBuf::from(&source.path);
    if climbs(&path) {
        return Err(VolumeProblem::HostPathClimbs { volume: volume.name.clone(), path });
    }
    let kind = match source.type_.as_deref().unwrap_or_default() {
        "" => HostPathKind::Any,
        "Directory" => HostPathKind::Directory,
        "DirectoryOrCreate" => HostPathKind::DirectoryOrCreate,
        "File" => HostPathKind::File,
        "FileOrCreate" => HostPathKind::FileOrCreate,
        "Socket" => HostPathKind::Socket,
        "CharDevice" => HostPathKind::CharDevice,
        "BlockDevice" => HostPathKind::BlockDevice,
        kind => {
            return Err(VolumeProblem::UnknownHostPathType {
                volume: volume.name.clone(),
                kind: kind.to_owned(),
            });
        }
    };
    Ok(VolumePlan::HostPath { path, kind })
}

fn climbs(path: &Path) -> bool {
    path.components().any(|component| component == Component::ParentDir)
}

fn unsupported_kind(volume: &Volume) -> Option<&'static str> {
    [
        (volume.aws_elastic_block_store.is_some(), "awsElasticBlockStore"),
        (volume.azure_disk.is_some(), "azureDisk"),
        (volume.azure_file.is_some(), "azureFile"),
        (volume.cephfs.is_some(), "cephfs"),
        (volume.cinder.is_some(), "cinder"),
        (volume.config_map.is_some(), "configMap"),
        (volume.csi.is_some(), "csi"),
        (volume.downward_api.is_some(), "downwardAPI"),
        (volume.ephemeral.is_some(), "ephemeral"),
        (volume.fc.is_some(), "fc"),
        (volume.flex_volume.is_some(), "flexVolume"),
        (volume.flocker.is_some(), "flocker"),
        (volume.gce_persistent_disk.is_some(), "gcePersistentDisk"),
        (volume.git_repo.is_some(), "gitRepo"),
        (volume.glusterfs.is_some(), "glusterfs"),
        (volume.image.is_some(), "image"),
        (volume.iscsi.is_some(), "iscsi"),
        (volume.nfs.is_some(), "nfs"),
        (volume.persistent_volume_claim.is_some(), "persistentVolumeClaim"),
        (volume.photon_persistent_disk.is_some(), "photonPersistentDisk"),
        (volume.portworx_volume.is_some(), "portworxVolume"),
        (volume.projected.is_some(), "projected"),
        (volume.quobyte.is_some(), "quobyte"),
        (volume.rbd.is_some(), "rbd"),
        (volume.scale_io.is_some(), "scaleIO"),
        (volume.secret.is_some(), "secret"),
        (volume.storageos.is_some(), "storageos"),
        (volume.vsphere_volume.is_some(), "vsphereVolume"),
    ]
    .into_iter()
    .find_map(|(is_set, kind)| is_set.then_some(kind))
}

#[cfg(test)]
mod tests;
