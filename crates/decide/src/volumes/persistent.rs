//! Volumes that exist without their pod.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    LocalVolumeSource, NFSVolumeSource, PersistentVolume, PersistentVolumeSpec, Volume,
};
use model::{ClaimedSize, DiskUse, LocalSource, NodeSettings, Pod, VolumePlan};

use super::claims::{ClaimedVolume, mode};
use super::{VolumeProblem, climbs, csi, fc, flex, host_path, iscsi, migration};
use crate::pod_paths::PodPaths;

const LOCAL: &str = "kubernetes.io/local-volume";
const FC: &str = "kubernetes.io/fc";
const ISCSI: &str = "kubernetes.io/iscsi";
const NFS: &str = "kubernetes.io/nfs";
const OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// The plan of a volume that names a claim. Paths and messages have the PersistentVolume's name.
pub(super) fn plan(
    pod: &Pod,
    volume: &Volume,
    claimed: &ClaimedVolume,
    settings: &NodeSettings,
) -> Result<VolumePlan, VolumeProblem> {
    let name = claimed.volume.metadata.name.as_deref().unwrap_or_default();
    let translated = migration::persistent(&claimed.volume)
        .map_err(|reason| VolumeProblem::Invalid { volume: name.to_owned(), reason })?;
    let translated = translated.map(|volume| ClaimedVolume { claim: claimed.claim.clone(), volume });
    let claimed = translated.as_ref().unwrap_or(claimed);
    let found = &claimed.volume;
    let name = found.metadata.name.as_deref().unwrap_or_default();
    let Some(spec) = &found.spec else { return Err(unsupported(volume)) };
    let read_only = volume.persistent_volume_claim.as_ref().and_then(|source| source.read_only) == Some(true);
    let options = mount_options(found, spec);
    let paths = PodPaths::new(settings);
    let is_block = mode(found) == "Block";
    let invalid = |reason: String| VolumeProblem::Invalid { volume: name.to_owned(), reason };
    if let Some(source) = &spec.local {
        let place = Place { pod, claimed, name, paths: &paths, is_block, read_only };
        return local(source, options, &place).map_err(invalid);
    }
    if let Some(source) = &spec.host_path {
        if !options.is_empty() {
            return Err(VolumeProblem::NoMountOptions { volume: name.to_owned() });
        }
        return match host_path(source).map_err(invalid)? {
            VolumePlan::HostPath { path, kind, .. } => Ok(VolumePlan::HostPath { path, kind, read_only }),
            other => Ok(other),
        };
    }
    if let Some(source) = &spec.nfs {
        return Ok(nfs(source, paths.volume_dir(&pod.uid, NFS, name), read_only, options));
    }
    let place = |plugin: &str| {
        if is_block {
            paths.device_link(&pod.uid, plugin, name)
        } else {
            paths.volume_dir(&pod.uid, plugin, name)
        }
    };
    let mounted = |fs_type: Option<&str>| {
        if is_block { DiskUse::Device } else { iscsi::as_files(fs_type, options.clone()) }
    };
    if let Some(source) = &spec.iscsi {
        let (path, use_as) = (place(ISCSI), mounted(source.fs_type.as_deref()));
        let wanted = iscsi::Wanted { path, name, namespace: pod.namespace(), use_as, read_only };
        return iscsi::persistent(source, wanted).map_err(invalid);
    }
    if let Some(source) = &spec.fc {
        let (path, use_as) = (place(FC), mounted(source.fs_type.as_deref()));
        return fc::plan(source, fc::Wanted { path, use_as, read_only }).map_err(invalid);
    }
    if let Some(source) = spec.flex_volume.as_ref().filter(|_| !is_block) {
        if !options.is_empty() {
            return Err(VolumeProblem::NoMountOptions { volume: name.to_owned() });
        }
        let path = paths.volume_dir(&pod.uid, &source.driver, name);
        let wanted = flex::Wanted { path, name, pod: csi::told_of(pod), read_only, size: csi::size(claimed) };
        return flex::persistent(source, wanted).map_err(invalid);
    }
    if let Some(source) = &spec.csi {
        return Ok(csi::claimed(&csi::Claimed { pod, claimed, spec, source, read_only }, settings));
    }
    Err(unsupported(volume))
}

/// Where a PersistentVolume is wanted.
struct Place<'a> {
    pod: &'a Pod,
    claimed: &'a ClaimedVolume,
    name: &'a str,
    paths: &'a PodPaths,
    is_block: bool,
    read_only: bool,
}

/// A folder or a disk of the host.
fn local(source: &LocalVolumeSource, options: Vec<String>, place: &Place<'_>) -> Result<VolumePlan, String> {
    let Place { pod, claimed, name, paths, is_block, read_only } = *place;
    let path = PathBuf::from(&source.path);
    if climbs(&path) {
        return Err(format!("invalid path: {} must not contain '..'", source.path));
    }
    if is_block {
        return Ok(VolumePlan::Device {
            path: paths.device_link(&pod.uid, LOCAL, name),
            source: path,
            read_only,
        });
    }
    let claimed = csi::size(claimed)
        .map(|size| Box::new(ClaimedSize { name: name.to_owned(), size, pod: csi::told_of(pod) }));
    let fs_type = source.fs_type.clone().unwrap_or_else(|| "ext4".to_owned());
    Ok(VolumePlan::Local {
        path: paths.volume_dir(&pod.uid, LOCAL, name),
        source: LocalSource { path, fs_type, claimed },
        read_only,
        options,
    })
}

/// A share of an NFS server.
pub(super) fn nfs(
    source: &NFSVolumeSource,
    path: PathBuf,
    read_only: bool,
    options: Vec<String>,
) -> VolumePlan {
    let server = match source.server.parse::<std::net::Ipv6Addr>() {
        Ok(_) => format!("[{}]", source.server),
        Err(_) => source.server.clone(),
    };
    VolumePlan::Nfs { path, source: format!("{server}:{}", source.path), read_only, options }
}

fn mount_options(volume: &PersistentVolume, spec: &PersistentVolumeSpec) -> Vec<String> {
    let annotation = volume.metadata.annotations.as_ref().and_then(|annotations| annotations.get(OPTIONS));
    match annotation {
        Some(text) => text.split(',').map(str::to_owned).collect(),
        None => spec.mount_options.clone().unwrap_or_default(),
    }
}

fn unsupported(volume: &Volume) -> VolumeProblem {
    VolumeProblem::UnsupportedKind { volume: volume.name.clone(), kind: "persistentVolumeClaim" }
}
