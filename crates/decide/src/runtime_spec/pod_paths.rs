//! Paths of a pod's directories, logs and cgroup.

use std::path::PathBuf;

use model::{CgroupDriver, ContainerId, LogFolder, NodeSettings, Pod, PodFullName, PodUid, SubPath};

use crate::pod_resources::qos::{QosClass, pod_qos_class};

/// Limit of common file systems.
const MAX_FILE_NAME: usize = 255;
const LOG_SUFFIX: &str = ".log";

#[derive(Clone, Debug)]
pub struct PodPaths {
    /// `rootDirectory`.
    pub root: PathBuf,
    /// `podLogsDir`.
    pub logs: PathBuf,
}

impl PodPaths {
    pub fn new(settings: &NodeSettings) -> Self {
        Self { root: settings.root_dir.clone(), logs: settings.pod_logs_dir.clone() }
    }

    /// `pods/<uid>` below the root directory.
    pub fn pod_dir(&self, uid: &PodUid) -> PathBuf {
        self.root.join("pods").join(uid.as_str())
    }

    /// `plugin` is a name such as `kubernetes.io/empty-dir`.
    pub fn volume_dir(&self, uid: &PodUid, plugin: &str, name: &str) -> PathBuf {
        self.pod_dir(uid).join("volumes").join(plugin.replace('/', "~")).join(name)
    }

    /// Symlink to the block device of a volume.
    pub fn device_link(&self, uid: &PodUid, plugin: &str, name: &str) -> PathBuf {
        self.pod_dir(uid).join("volumeDevices").join(plugin.replace('/', "~")).join(name)
    }

    /// Where a CSI driver publishes a block device for a pod.
    pub fn published_device(&self, uid: &PodUid, name: &str) -> PathBuf {
        let devices = self.root.join("plugins").join("kubernetes.io/csi").join("volumeDevices");
        devices.join("publish").join(name).join(uid.as_str())
    }

    /// Where a `subPath` is bind-mounted for one container.
    pub fn sub_path(&self, uid: &PodUid, part: &SubPath) -> PathBuf {
        let folder = self.pod_dir(uid).join("volume-subpaths").join(&part.volume).join(&part.container);
        folder.join(part.index.to_string())
    }

    /// The directory of a container's termination message files, relative to the pod directory.
    pub fn container_dir_relative(name: &str) -> PathBuf {
        Self::container_dirs_relative().join(name)
    }

    /// The parent of [`PodPaths::container_dir_relative`].
    pub fn container_dirs_relative() -> PathBuf {
        PathBuf::from("containers")
    }

    /// Relative to the pod directory.
    pub fn hosts_file_relative() -> PathBuf {
        PathBuf::from("etc-hosts")
    }

    pub fn log_dir(&self, pod: &Pod) -> PathBuf {
        self.logs.join(log_folder(pod).file_name())
    }

    /// Relative to the pod's log directory.
    pub fn container_log_relative(container: &str, restart: u32) -> String {
        format!("{container}/{restart}{LOG_SUFFIX}")
    }

    /// Name of the symlink in `/var/log/containers`.
    pub fn log_link_name(pod: &Pod, container: &str, id: &ContainerId) -> String {
        log_link_name(&pod.full_name, container, id)
    }
}

/// Name of the symlink in `/var/log/containers`.
pub fn log_link_name(pod: &PodFullName, container: &str, id: &ContainerId) -> String {
    let mut name = format!("{}_{}_{container}-{id}", pod.name, pod.namespace);
    name.truncate(name.floor_char_boundary(MAX_FILE_NAME - LOG_SUFFIX.len()));
    name + LOG_SUFFIX
}

pub fn log_folder(pod: &Pod) -> LogFolder {
    LogFolder { uid: pod.uid.clone(), full_name: pod.full_name.clone() }
}

/// The pod's cgroup, in the form of the cgroup driver. Empty without `cgroupsPerQOS`; the runtime then chooses the
/// parent.
pub fn pod_cgroup(pod: &Pod, settings: &NodeSettings) -> String {
    if !settings.cgroups_per_qos {
        return String::new();
    }
    let own = format!("pod{}", pod.uid);
    match pod_qos_class(pod) {
        QosClass::Guaranteed => cgroup_path(settings, &["kubepods", &own]),
        QosClass::Burstable => cgroup_path(settings, &["kubepods", "burstable", &own]),
        QosClass::BestEffort => cgroup_path(settings, &["kubepods", "besteffort", &own]),
    }
}

/// All possible cgroups of a pod whose spec, and therefore QoS class, is unknown.
pub fn possible_pod_cgroups(uid: &PodUid, settings: &NodeSettings) -> Vec<String> {
    if !settings.cgroups_per_qos {
        return Vec::new();
    }
    let own = format!("pod{uid}");
    let classes: [&[&str]; 3] = [&[], &["burstable"], &["besteffort"]];
    let path = |class: &[&str]| cgroup_path(settings, &[&["kubepods"], class, &[own.as_str()]].concat());
    classes.map(path).to_vec()
}

/// A cgroup below the configured root, in the form of the cgroup driver.
pub(crate) fn cgroup_path(settings: &NodeSettings, names: &[&str]) -> String {
    let root = settings.cgroup_root.split('/').filter(|part| !part.is_empty());
    let parts: Vec<String> = root.chain(names.iter().copied()).map(str::to_owned).collect();
    match settings.cgroup_driver {
        CgroupDriver::Cgroupfs => format!("/{}", parts.join("/")),
        CgroupDriver::Systemd => systemd_path(&parts),
    }
}

/// Each systemd slice name repeats the names of its parents, joined by dashes.
fn systemd_path(parts: &[String]) -> String {
    let mut slice = String::new();
    let mut path = String::new();
    for part in parts {
        if !slice.is_empty() {
            slice.push('-');
        }
        slice.push_str(&part.replace('-', "_"));
        path.push('/');
        path.push_str(&slice);
        path.push_str(".slice");
    }
    path
}

#[cfg(test)]
pub(crate) mod tests;
