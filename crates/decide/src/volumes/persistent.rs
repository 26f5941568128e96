//! PersistentVolumes.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    FCVolumeSource, FlexPersistentVolumeSource, HostPathVolumeSource, ISCSIPersistentVolumeSource,
    LocalVolumeSource, NFSVolumeSource, PersistentVolume, PersistentVolumeSpec, Volume,
};
use model::{ClaimedSize, DiskUse, LocalSource, NodeSettings, Pod, VolumePlan};

use super::claims::{ClaimedVolume, mode};
use super::{VolumeProblem, climbs, csi, fc, flex, host_path, iscsi, migration};
use crate::runtime_spec::pod_paths::PodPaths;

const LOCAL: &str = "kubernetes.io/local-volume";
const FC: &str = "kubernetes.io/fc";
const ISCSI: &str = "kubernetes.io/iscsi";
const NFS: &str = "kubernetes.io/nfs";
const MOUNT_OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";

/// Plans a claimed volume. Paths and messages use the PersistentVolume's name.
pub(super) fn plan(
    pod: &Pod,
    volume: &Volume,
    claimed: &ClaimedVolume,
    settings: &NodeSettings,
) -> Result<VolumePlan, VolumeProblem> {
    let translated = translated(claimed)?;
    let claimed = translated.as_ref().unwrap_or(claimed);
    let found = &claimed.volume;
    let Some(spec) = &found.spec else { return Err(unsupported(volume)) };
    let paths = PodPaths::new(settings);
    let request = VolumeRequest {
        pod,
        claimed,
        name: found.metadata.name.as_deref().unwrap_or_default(),
        paths: &paths,
        is_block: mode(found) == "Block",
        read_only: volume.persistent_volume_claim.as_ref().and_then(|source| source.read_only) == Some(true),
        options: mount_options(found, spec),
    };
    if let Some(plan) = request.built_in(spec) {
        return plan;
    }
    let Some(source) = &spec.csi else { return Err(unsupported(volume)) };
    let read_only = request.read_only;
    Ok(csi::claimed(&csi::Claimed { pod, claimed, spec, source, read_only }, settings))
}

/// Translates a volume of a former in-tree plugin to its CSI driver.
fn translated(claimed: &ClaimedVolume) -> Result<Option<ClaimedVolume>, VolumeProblem> {
    let name = claimed.volume.metadata.name.as_deref().unwrap_or_default();
    let translated = migration::persistent(&claimed.volume)
        .map_err(|reason| VolumeProblem::Invalid { volume: name.to_owned(), reason })?;
    Ok(translated.map(|volume| ClaimedVolume { claim: claimed.claim.clone(), volume }))
}

/// A PersistentVolume and its use in the pod.
struct VolumeRequest<'a> {
    pod: &'a Pod,
    claimed: &'a ClaimedVolume,
    name: &'a str,
    paths: &'a PodPaths,
    is_block: bool,
    read_only: bool,
    options: Vec<String>,
}

impl VolumeRequest<'_> {
    /// Plans the kinds that need no CSI driver; `None` for other kinds.
    fn built_in(&self, spec: &PersistentVolumeSpec) -> Option<Result<VolumePlan, VolumeProblem>> {
        if let Some(source) = &spec.local {
            return Some(self.local(source));
        }
        if let Some(source) = &spec.host_path {
            return Some(self.host_path(source));
        }
        if let Some(source) = &spec.nfs {
            let path = self.paths.volume_dir(&self.pod.uid, NFS, self.name);
            return Some(
                nfs(source, path, self.read_only, self.options.clone())
                    .map_err(|reason| self.invalid(reason)),
            );
        }
        if let Some(source) = &spec.iscsi {
            return Some(self.iscsi(source));
        }
        if let Some(source) = &spec.fc {
            return Some(self.fc(source));
        }
        spec.flex_volume.as_ref().filter(|_| !self.is_block).map(|source| self.flex(source))
    }

    /// A folder or a disk of the host.
    fn local(&self, source: &LocalVolumeSource) -> Result<VolumePlan, VolumeProblem> {
        let path = PathBuf::from(&source.path);
        if climbs(&path) {
            return Err(self.invalid(format!("invalid path: {} must not contain '..'", source.path)));
        }
        let (place, read_only) = (self.place(LOCAL), self.read_only);
        if self.is_block {
            return Ok(VolumePlan::Device { path: place, source: path, read_only });
        }
        let (name, pod) = (self.name.to_owned(), csi::pod_info(self.pod));
        let claimed = csi::size(self.claimed).map(|size| Box::new(ClaimedSize { name, size, pod }));
        let fs_type = source.fs_type.clone().unwrap_or_else(|| "ext4".to_owned());
        let source = LocalSource { path, fs_type, claimed };
        Ok(VolumePlan::Local { path: place, source, read_only, options: self.options.clone() })
    }

    fn host_path(&self, source: &HostPathVolumeSource) -> Result<VolumePlan, VolumeProblem> {
        self.no_options()?;
        match host_path(source).map_err(|reason| self.invalid(reason))? {
            VolumePlan::HostPath { path, kind, .. } => {
                Ok(VolumePlan::HostPath { path, kind, read_only: self.read_only })
            }
            other => Ok(other),
        }
    }

    fn iscsi(&self, source: &ISCSIPersistentVolumeSource) -> Result<VolumePlan, VolumeProblem> {
        let properties = iscsi::VolumeProperties {
            path: self.place(ISCSI),
            name: self.name,
            namespace: self.pod.namespace(),
            use_as: self.use_as(source.fs_type.as_deref()),
            read_only: self.read_only,
        };
        iscsi::plan(source, properties).map_err(|reason| self.invalid(reason))
    }

    fn fc(&self, source: &FCVolumeSource) -> Result<VolumePlan, VolumeProblem> {
        let (path, use_as) = (self.place(FC), self.use_as(source.fs_type.as_deref()));
        let properties = fc::VolumeProperties { path, use_as, read_only: self.read_only };
        fc::plan(source, properties).map_err(|reason| self.invalid(reason))
    }

    fn flex(&self, source: &FlexPersistentVolumeSource) -> Result<VolumePlan, VolumeProblem> {
        self.no_options()?;
        let properties = flex::VolumeProperties {
            path: self.paths.volume_dir(&self.pod.uid, &source.driver, self.name),
            name: self.name,
            pod: csi::pod_info(self.pod),
            read_only: self.read_only,
            size: csi::size(self.claimed),
        };
        flex::plan(source, properties).map_err(|reason| self.invalid(reason))
    }

    /// The path of its folder, or of the link to its device.
    fn place(&self, plugin: &str) -> PathBuf {
        match self.is_block {
            true => self.paths.device_link(&self.pod.uid, plugin, self.name),
            false => self.paths.volume_dir(&self.pod.uid, plugin, self.name),
        }
    }

    fn use_as(&self, fs_type: Option<&str>) -> DiskUse {
        match self.is_block {
            true => DiskUse::Device,
            false => iscsi::as_files(fs_type, self.options.clone()),
        }
    }

    fn no_options(&self) -> Result<(), VolumeProblem> {
        match self.options.is_empty() {
            true => Ok(()),
            false => Err(VolumeProblem::NoMountOptions { volume: self.name.to_owned() }),
        }
    }

    fn invalid(&self, reason: String) -> VolumeProblem {
        VolumeProblem::Invalid { volume: self.name.to_owned(), reason }
    }
}

/// A share of an NFS server. `mount` and its helpers get server and path as one argument.
///
/// # Errors
/// If the server is no host name or address, or the path is not absolute.
pub(super) fn nfs(
    source: &NFSVolumeSource,
    path: PathBuf,
    read_only: bool,
    options: Vec<String>,
) -> Result<VolumePlan, String> {
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]%".contains(&byte);
    if source.server.is_empty() || source.server.starts_with('-') || !source.server.bytes().all(is_host) {
        return Err(format!("nfs: {:?} is no host name or address of a server", source.server));
    }
    if !source.path.starts_with('/') || source.path.contains(char::is_control) {
        return Err(format!("nfs: {:?} is no absolute path of a share", source.path));
    }
    let server = match source.server.parse::<std::net::Ipv6Addr>() {
        Ok(_) => format!("[{}]", source.server),
        Err(_) => source.server.clone(),
    };
    Ok(VolumePlan::Nfs { path, source: format!("{server}:{}", source.path), read_only, options })
}

fn mount_options(volume: &PersistentVolume, spec: &PersistentVolumeSpec) -> Vec<String> {
    let annotation = volume
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(MOUNT_OPTIONS_ANNOTATION));
    match annotation {
        Some(text) => text.split(',').map(str::to_owned).collect(),
        None => spec.mount_options.clone().unwrap_or_default(),
    }
}

fn unsupported(volume: &Volume) -> VolumeProblem {
    VolumeProblem::UnsupportedKind { volume: volume.name.clone(), kind: "persistentVolumeClaim" }
}
