//! Paths of the files that statistics of a pod count.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Volume;
use model::statistics::ClaimReference;
use model::{CsiAccess, DiskUse, FileStorage, LogFolder, NodeSettings, Pod, PodFullName, PodUid, VolumePlan};

use crate::runtime_spec::pod_paths::PodPaths;
use crate::volumes::{ClaimedVolumes, claim_name, plan_without_content};

/// A volume with statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeLocation {
    pub name: String,
    pub path: PathBuf,
    pub measure: Measure,
    pub claim: Option<ClaimReference>,
    /// Whether it counts as ephemeral storage of the pod.
    pub is_local: bool,
}

/// How the use of a volume is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Count its files.
    Files,
    /// Read the use of its file system.
    Filesystem,
    /// Read the size of a block device.
    Device,
    /// Ask the CSI driver about a block device.
    DrivenDevice {
        driver: String,
        /// The driver's ID of the volume.
        handle: String,
    },
    /// Ask the CSI driver, or else read the use of the file system.
    Driver {
        driver: String,
        /// The driver's ID of the volume.
        handle: String,
    },
}

/// The volumes of a pod with statistics. Like upstream, hostPath and image volumes have none.
pub fn volume_locations(pod: &Pod, settings: &NodeSettings, claimed: &ClaimedVolumes) -> Vec<VolumeLocation> {
    let place = |(volume, plan): (&Volume, VolumePlan)| {
        let (path, measure, is_local) = match plan {
            VolumePlan::EmptyDir { path } => (path, Measure::Files, true),
            VolumePlan::Files { path, storage, .. } => (path, Measure::Files, storage == FileStorage::Disk),
            VolumePlan::MemoryDir { path, .. } | VolumePlan::HugePagesDir { path, .. } => {
                (path, Measure::Files, false)
            }
            VolumePlan::Nfs { path, .. } | VolumePlan::Local { path, .. } => {
                (path, Measure::Filesystem, false)
            }
            VolumePlan::Iscsi(disk) => match disk.use_as {
                DiskUse::Files { .. } => (disk.path, Measure::Filesystem, false),
                DiskUse::Device => (disk.path, Measure::Device, false),
            },
            // Like upstream, which does not count files here.
            VolumePlan::Fc(disk) => match disk.use_as {
                DiskUse::Files { .. } => return None,
                DiskUse::Device => (disk.path, Measure::Device, false),
            },
            VolumePlan::Csi(volume) => {
                let (driver, handle) = (volume.driver, volume.handle);
                match volume.access {
                    CsiAccess::Files { .. } => (volume.path, Measure::Driver { driver, handle }, false),
                    CsiAccess::Block => {
                        let path = PodPaths::new(settings).published_device(&pod.uid, &volume.spec_name);
                        (path, Measure::DrivenDevice { driver, handle }, false)
                    }
                }
            }
            VolumePlan::Device { source, .. } => (source, Measure::Device, false),
            // Upstream shows only volumes whose driver reports statistics.
            VolumePlan::Flex(_) | VolumePlan::Image { .. } | VolumePlan::HostPath { .. } => return None,
        };
        let claim = claim_name(pod, volume)
            .map(|name| ClaimReference { name, namespace: pod.namespace().to_owned() });
        Some(VolumeLocation { name: volume.name.clone(), path, measure, claim, is_local })
    };
    plan_without_content(pod, settings, claimed).into_iter().filter_map(place).collect()
}

/// The files of a pod that are counted besides its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFiles {
    pub logs: PathBuf,
    pub hosts: PathBuf,
    /// Has a folder for each container with its termination messages.
    pub messages: PathBuf,
}

pub fn pod_files(uid: &PodUid, full_name: &PodFullName, settings: &NodeSettings) -> PodFiles {
    let paths = PodPaths::new(settings);
    let logs = LogFolder { uid: uid.clone(), full_name: full_name.clone() };
    PodFiles {
        logs: paths.logs.join(logs.file_name()),
        hosts: paths.pod_dir(uid).join(PodPaths::hosts_file_relative()),
        messages: paths.pod_dir(uid).join(PodPaths::container_dirs_relative()),
    }
}
