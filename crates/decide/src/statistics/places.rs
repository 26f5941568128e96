//! Where the files of a pod lie that its statistics count.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Volume;
use model::statistics::ClaimReference;
use model::{CsiAccess, DiskUse, FileStorage, LogFolder, NodeSettings, Pod, PodFullName, PodUid, VolumePlan};

use crate::pod_paths::PodPaths;
use crate::volumes::{ClaimedVolumes, claim_name, plan_without_content};

/// A volume whose use is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePlace {
    /// Name in the pod.
    pub name: String,
    /// Where its files are.
    pub path: PathBuf,
    /// How its use is found out.
    pub measure: Measure,
    /// The claim it stands for.
    pub claim: Option<ClaimReference>,
    /// Whether it lies on the node's own disk and goes with the pod.
    pub is_local: bool,
}

/// How the use of a volume is found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Its files are counted.
    Files,
    /// It is a file system of its own.
    Filesystem,
    /// It is a block device, of which the size alone is known.
    Device,
    /// It is a block device of which its driver knows more, or nobody.
    DrivenDevice {
        /// The driver's name.
        driver: String,
        /// Its name for the volume.
        handle: String,
    },
    /// Its driver knows; a file system of its own if not.
    Driver {
        /// The driver's name.
        driver: String,
        /// Its name for the volume.
        handle: String,
    },
}

/// The volumes of a pod that have statistics. Paths of the host and images have none, as upstream.
#[must_use]
pub fn volume_places(pod: &Pod, settings: &NodeSettings, claimed: &ClaimedVolumes) -> Vec<VolumePlace> {
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
            // As upstream, which counts nothing of files here.
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
            // Of drivers' volumes upstream counts only those whose driver says so, which is the exception.
            VolumePlan::Flex(_) | VolumePlan::Image { .. } | VolumePlan::HostPath { .. } => return None,
        };
        let claim = claim_name(pod, volume)
            .map(|name| ClaimReference { name, namespace: pod.namespace().to_owned() });
        Some(VolumePlace { name: volume.name.clone(), path, measure, claim, is_local })
    };
    plan_without_content(pod, settings, claimed).into_iter().filter_map(place).collect()
}

/// The folders and the file of a pod that are counted besides its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFiles {
    /// The folder of its logs.
    pub logs: PathBuf,
    /// Its hosts file.
    pub hosts: PathBuf,
}

/// Where they are.
#[must_use]
pub fn pod_files(uid: &PodUid, full_name: &PodFullName, settings: &NodeSettings) -> PodFiles {
    let paths = PodPaths::new(settings);
    let logs = LogFolder { uid: uid.clone(), full_name: full_name.clone() };
    PodFiles {
        logs: paths.logs.join(logs.file_name()),
        hosts: paths.pod_dir(uid).join(PodPaths::hosts_file_relative()),
    }
}
