//! Plans how the volumes of a pod are set up.

mod claims;
pub mod csi;
pub mod csi_driver;
mod empty_dir;
mod fc;
mod flex;
pub mod growth;
mod iscsi;
pub mod labels;
mod messages;
mod migration;
mod mount_points;
mod persistent;
mod problem;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{HostPathVolumeSource, PersistentVolumeClaim, Volume};
use model::{
    FileStorage, FsGroup, FsGroupChange, HostPathKind, ImageSpec, NodeSettings, PlannedVolume, Pod,
    ProjectedFile, VolumeLabel, VolumePlan,
};

pub use claims::{
    ClaimedVolume, ClaimedVolumes, bound_volume_name, check_binding, check_node_affinity, claim_name,
    is_for_one_pod, processing, volume_groups,
};
pub use messages::{
    mapped, other_file_system, other_group, retry_after, set_up_failed, slow_ownership, step_failed,
    still_changing, too_many_volumes,
};
pub use problem::VolumeProblem;

use crate::runtime_spec::pod_paths::PodPaths;

const EMPTY_DIR_PLUGIN: &str = "kubernetes.io/empty-dir";
const NO_GIT_REPO: &str = "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by \
                           enabling the feature-gate `GitRepoVolumeDriver`";

/// The content of a pod's configMap, secret, downwardAPI and projected volumes, by volume name.
pub type VolumeFiles = BTreeMap<String, Vec<ProjectedFile>>;

/// Plans the volumes that containers mount, in the order of the spec; unmounted volumes are left out. `files` has the content
/// of every volume that [`holds_files`], `claimed` the PersistentVolume of every volume with a [`claim_name`].
///
/// # Errors
/// The first volume that cannot be set up.
pub fn plan_volumes(
    pod: &Pod,
    settings: &NodeSettings,
    files: &VolumeFiles,
    claimed: &ClaimedVolumes,
) -> Result<Vec<PlannedVolume>, VolumeProblem> {
    let planned = used_volumes(pod).map(|volume| {
        let plan = plan_either(pod, volume, settings, files, claimed)?;
        Ok(with_label(pod, volume, plan, claimed, settings))
    });
    planned.collect()
}

/// Plans only the mounted volumes that [`holds_files`].
///
/// # Errors
/// The first volume that cannot be set up.
pub fn plan_files(
    pod: &Pod,
    settings: &NodeSettings,
    files: &VolumeFiles,
) -> Result<Vec<PlannedVolume>, VolumeProblem> {
    used_volumes(pod)
        .filter(|volume| holds_files(volume))
        .map(|volume| plan(pod, volume, settings, files).map(|plan| with_group(pod, volume, plan)))
        .collect()
}

/// Plans the volumes of drivers and those that may grow, for the periodic refresh. Volumes that cannot be planned are left out.
pub fn plan_driver_volumes(
    pod: &Pod,
    settings: &NodeSettings,
    claimed: &ClaimedVolumes,
) -> Vec<PlannedVolume> {
    used_volumes(pod)
        .filter_map(|volume| {
            let plan = plan_either(pod, volume, settings, &VolumeFiles::new(), claimed).ok()?;
            let is_looked_after = match &plan {
                VolumePlan::Csi(_) | VolumePlan::Iscsi(_) | VolumePlan::Fc(_) | VolumePlan::Flex(_) => true,
                VolumePlan::Local { source, .. } => source.claimed.is_some(),
                VolumePlan::EmptyDir { .. }
                | VolumePlan::MemoryDir { .. }
                | VolumePlan::HugePagesDir { .. }
                | VolumePlan::Files { .. }
                | VolumePlan::Nfs { .. }
                | VolumePlan::Device { .. }
                | VolumePlan::Image { .. }
                | VolumePlan::HostPath { .. } => false,
            };
            is_looked_after.then(|| with_label(pod, volume, plan, claimed, settings))
        })
        .collect()
}

/// Plans the used volumes with empty files, for callers that only need the paths. Volumes that cannot be planned are left out.
pub fn plan_without_content<'a>(
    pod: &'a Pod,
    settings: &NodeSettings,
    claimed: &ClaimedVolumes,
) -> Vec<(&'a Volume, VolumePlan)> {
    let files: VolumeFiles = used_volumes(pod)
        .filter(|volume| holds_files(volume))
        .map(|volume| (volume.name.clone(), Vec::new()))
        .collect();
    used_volumes(pod)
        .filter_map(|volume| Some((volume, plan_either(pod, volume, settings, &files, claimed).ok()?)))
        .collect()
}

/// The volumes that containers use, in the order of the spec.
pub fn used_volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let used = mounted_names(pod);
    pod.spec.volumes.iter().flatten().filter(move |volume| used.contains(volume.name.as_str()))
}

fn with_group(pod: &Pod, volume: &Volume, plan: VolumePlan) -> PlannedVolume {
    let fs_group = fs_group(pod, &plan);
    PlannedVolume { name: volume.name.clone(), plan, fs_group, label: VolumeLabel::None }
}

fn with_label(
    pod: &Pod,
    volume: &Volume,
    plan: VolumePlan,
    claimed: &ClaimedVolumes,
    settings: &NodeSettings,
) -> PlannedVolume {
    let label = labels::wish(pod, &volume.name, &plan, claimed.get(&volume.name), settings);
    PlannedVolume { label, ..with_group(pod, volume, plan) }
}

/// Whether the agent writes the files of this volume.
pub fn holds_files(volume: &Volume) -> bool {
    files_plugin(volume).is_some()
}

/// Names of volumes that a container mounts or uses as a device.
fn mounted_names(pod: &Pod) -> BTreeSet<&str> {
    pod.all_containers()
        .flat_map(|entry| {
            let mounts = entry.container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str());
            let devices = entry.container.volume_devices.iter().flatten().map(|device| device.name.as_str());
            mounts.chain(devices)
        })
        .collect()
}

/// Plans a claimed volume by its PersistentVolume, and any other by its source.
fn plan_either(
    pod: &Pod,
    volume: &Volume,
    settings: &NodeSettings,
    files: &VolumeFiles,
    claimed: &ClaimedVolumes,
) -> Result<VolumePlan, VolumeProblem> {
    match claimed.get(&volume.name) {
        Some(found) => persistent::plan(pod, volume, found, settings),
        None => plan(pod, volume, settings, files),
    }
}

fn plan(
    pod: &Pod,
    volume: &Volume,
    settings: &NodeSettings,
    files: &VolumeFiles,
) -> Result<VolumePlan, VolumeProblem> {
    let invalid = |reason: String| VolumeProblem::Invalid { volume: volume.name.clone(), reason };
    let path = |plugin: &str| PodPaths::new(settings).volume_dir(&pod.uid, plugin, &volume.name);
    if let (Some((plugin, kept)), Some(files)) = (files_plugin(volume), files.get(&volume.name)) {
        let storage = match kept {
            FileMedium::OnDisk => FileStorage::Disk,
            FileMedium::InMemory => {
                FileStorage::Memory { size_limit: empty_dir::memory_size(pod, None, settings) }
            }
        };
        let mount_points = mount_points::nested(pod, &volume.name).map_err(invalid)?;
        return Ok(VolumePlan::Files { path: path(plugin), storage, files: files.clone(), mount_points });
    }
    if volume.git_repo.is_some() {
        return Err(invalid(NO_GIT_REPO.to_owned()));
    }
    if let Some(behind) = migration::inline(volume, pod.namespace()).map_err(invalid)? {
        let claimed = ClaimedVolume { claim: PersistentVolumeClaim::default(), volume: behind };
        return persistent::plan(pod, volume, &claimed, settings);
    }
    if let Some(kind) = unsupported_kind(volume) {
        return Err(VolumeProblem::UnsupportedKind { volume: volume.name.clone(), kind });
    }
    if let Some(source) = &volume.nfs {
        let read_only = source.read_only == Some(true);
        return persistent::nfs(source, path("kubernetes.io/nfs"), read_only, Vec::new()).map_err(invalid);
    }
    if let Some(plan) = served(pod, volume, path).map_err(invalid)? {
        return Ok(plan);
    }
    if let Some(source) = &volume.csi {
        return Ok(csi::inline(pod, &volume.name, source, settings));
    }
    if let Some(source) = &volume.image {
        let image = ImageSpec {
            user_specified_image: source.reference.clone().unwrap_or_default(),
            annotations: pod.metadata.annotations.clone().unwrap_or_default(),
            ..ImageSpec::default()
        };
        return Ok(VolumePlan::Image { image, pull_policy: source.pull_policy.clone() });
    }
    if let Some(source) = &volume.host_path {
        return host_path(source).map_err(invalid);
    }
    empty_dir::plan(pod, volume, path(EMPTY_DIR_PLUGIN), settings).map_err(invalid)
}

/// Plans iSCSI, Fibre Channel and FlexVolume volumes; `path` returns the folder for a plugin name.
fn served(pod: &Pod, volume: &Volume, path: impl Fn(&str) -> PathBuf) -> Result<Option<VolumePlan>, String> {
    if let Some(source) = &volume.iscsi {
        let properties = iscsi::VolumeProperties {
            path: path("kubernetes.io/iscsi"),
            name: &volume.name,
            namespace: pod.namespace(),
            use_as: iscsi::as_files(source.fs_type.as_deref(), Vec::new()),
            read_only: false,
        };
        return iscsi::inline(source, properties).map(Some);
    }
    if let Some(source) = &volume.fc {
        let properties = fc::VolumeProperties {
            path: path("kubernetes.io/fc"),
            use_as: iscsi::as_files(source.fs_type.as_deref(), Vec::new()),
            read_only: source.read_only == Some(true),
        };
        return fc::plan(source, properties).map(Some);
    }
    let Some(source) = &volume.flex_volume else { return Ok(None) };
    let properties = flex::VolumeProperties {
        path: path(&source.driver),
        name: &volume.name,
        pod: csi::pod_info(pod),
        read_only: source.read_only == Some(true),
        size: None,
    };
    flex::inline(source, properties).map(Some)
}

/// Storage of projected files.
#[derive(Clone, Copy)]
enum FileMedium {
    OnDisk,
    InMemory,
}

fn files_plugin(volume: &Volume) -> Option<(&'static str, FileMedium)> {
    [
        (volume.config_map.is_some(), ("kubernetes.io/configmap", FileMedium::OnDisk)),
        (volume.secret.is_some(), ("kubernetes.io/secret", FileMedium::InMemory)),
        (volume.downward_api.is_some(), ("kubernetes.io/downward-api", FileMedium::InMemory)),
        (volume.projected.is_some(), ("kubernetes.io/projected", FileMedium::InMemory)),
    ]
    .into_iter()
    .find_map(|(is_set, plugin)| is_set.then_some(plugin))
}

/// The fsGroup, for volumes whose ownership the agent may change.
fn fs_group(pod: &Pod, plan: &VolumePlan) -> Option<FsGroup> {
    let gid = pod.spec.security_context.as_ref()?.fs_group?;
    let gid = u32::try_from(gid).ok()?;
    let by_policy = FsGroup { gid, change: change_policy(pod) };
    match plan {
        VolumePlan::EmptyDir { .. }
        | VolumePlan::MemoryDir { .. }
        | VolumePlan::HugePagesDir { .. }
        | VolumePlan::Files { .. } => Some(FsGroup { gid, change: FsGroupChange::Always }),
        VolumePlan::Local { read_only, .. } => (!read_only).then_some(by_policy),
        VolumePlan::Iscsi(disk) => (!disk.read_only && !plan.is_device()).then_some(by_policy),
        VolumePlan::Fc(disk) => (!disk.read_only && !plan.is_device()).then_some(by_policy),
        // The CSI driver's policy decides who changes the group.
        VolumePlan::Csi(_) | VolumePlan::Flex(_) => Some(by_policy),
        VolumePlan::Device { .. }
        | VolumePlan::HostPath { .. }
        | VolumePlan::Image { .. }
        | VolumePlan::Nfs { .. } => None,
    }
}

fn change_policy(pod: &Pod) -> FsGroupChange {
    let context = pod.spec.security_context.as_ref();
    match context.and_then(|context| context.fs_group_change_policy.as_deref()) {
        Some("OnRootMismatch") => FsGroupChange::OnRootMismatch,
        Some(_) | None => FsGroupChange::Always,
    }
}

fn host_path(source: &HostPathVolumeSource) -> Result<VolumePlan, String> {
    let path = PathBuf::from(&source.path);
    if climbs(&path) {
        return Err(format!("invalid HostPath `{}`: must not contain '..'", source.path));
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
        kind => return Err(format!("{kind} is an invalid volume type")),
    };
    Ok(VolumePlan::HostPath { path, kind, read_only: false })
}

pub(crate) fn climbs(path: &Path) -> bool {
    path.components().any(|component| component == std::path::Component::ParentDir)
}

fn unsupported_kind(volume: &Volume) -> Option<&'static str> {
    [
        (volume.cephfs.is_some(), "cephfs"),
        (volume.config_map.is_some(), "configMap"),
        (volume.downward_api.is_some(), "downwardAPI"),
        (volume.ephemeral.is_some(), "ephemeral"),
        (volume.flocker.is_some(), "flocker"),
        (volume.glusterfs.is_some(), "glusterfs"),
        (volume.persistent_volume_claim.is_some(), "persistentVolumeClaim"),
        (volume.photon_persistent_disk.is_some(), "photonPersistentDisk"),
        (volume.projected.is_some(), "projected"),
        (volume.quobyte.is_some(), "quobyte"),
        (volume.rbd.is_some(), "rbd"),
        (volume.scale_io.is_some(), "scaleIO"),
        (volume.secret.is_some(), "secret"),
        (volume.storageos.is_some(), "storageos"),
    ]
    .into_iter()
    .find_map(|(is_set, kind)| is_set.then_some(kind))
}

#[cfg(test)]
mod tests;
