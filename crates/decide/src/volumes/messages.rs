use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{NodeSettings, PlannedVolume, PodUid, VolumePlan, VolumeStep};
use timing::BackoffPolicy;

const RETRY_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_millis(500), Duration::from_secs(122));

pub fn set_up_failed(volume: &str, reason: &str) -> String {
    format!("MountVolume.SetUp failed for volume {volume:?} : {reason}")
}

/// Reason and message of the event for a failed step. Block devices have different messages.
pub fn step_failed(
    plan: &VolumePlan,
    step: VolumeStep,
    volume: &str,
    reason: &str,
) -> (&'static str, String) {
    let (event, operation) = match (plan.is_device(), step) {
        (false, VolumeStep::WaitForAttach) => ("FailedMount", "MountVolume.WaitForAttach"),
        (false, VolumeStep::MountDevice) => ("FailedMount", "MountVolume.MountDevice"),
        (false, VolumeStep::SetUp) => ("FailedMount", "MountVolume.SetUp"),
        (true, VolumeStep::WaitForAttach) => ("FailedMapVolume", "MapVolume.WaitForAttach"),
        (true, VolumeStep::MountDevice) => ("FailedMapVolume", "MapVolume.SetUpDevice"),
        (true, VolumeStep::SetUp) => ("FailedMapVolume", "MapVolume.MapPodDevice"),
    };
    (event, format!("{operation} failed for volume {volume:?} : {reason}"))
}

/// Event messages for a mapped block device: global path and pod path. CSI devices are reported elsewhere.
pub fn mapped(plan: &VolumePlan, volume: &str, settings: &NodeSettings) -> Vec<String> {
    let plugins = settings.root_dir.join("plugins");
    let global = if let VolumePlan::Device { .. } = plan {
        plugins.join("kubernetes.io~local-volume/volumeDevices").join(volume)
    } else if let (VolumePlan::Iscsi(disk), true) = (plan, plan.is_device()) {
        let portal = disk.portals.first().map_or("", String::as_str);
        let devices = plugins.join("kubernetes.io/iscsi/volumeDevices");
        let name = format!("{portal}-{}-lun-{}", disk.target, disk.lun);
        devices.join(format!("iface-{}", disk.interface)).join(name)
    } else if let (VolumePlan::Fc(disk), true) = (plan, plan.is_device()) {
        plugins.join("kubernetes.io/fc/volumeDevices").join(disk.name.folder())
    } else {
        return Vec::new();
    };
    let of_pod = plan.host_path().and_then(|link| link.parent()).unwrap_or(Path::new(""));
    let paths = [("globalMapPath", global.as_path()), ("volumeMapPath", of_pod)];
    let words = |(word, place): (&str, &Path)| {
        let place = place.display().to_string();
        format!("MapVolume.MapPodDevice succeeded for volume {volume:?} {word} {place:?}")
    };
    paths.into_iter().map(words).collect()
}

/// Event message for a disk with an unexpected file system.
pub fn other_file_system(volume: &str, reason: &str) -> String {
    format!("MountVolume failed for volume {volume:?} {reason}")
}

/// Message for a pod that exceeds the attach limit of the node.
pub fn too_many_volumes(unattached: &[String]) -> String {
    let names = unattached.join(" ");
    format!(
        "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[{names}], unattached \
         volumes=[{names}], failed to process volumes=[]: context deadline exceeded"
    )
}

/// Event message for a shared volume with another group than the pod's.
pub fn other_group(volume: &str, requested: u32, found: u32) -> String {
    format!(
        "The requested fsGroup is {requested}, but the volume {volume} has GID {found}. The volume may not be shareable."
    )
}

/// Delay of the next attempt after this many failures in a row.
pub fn retry_after(failures: u32) -> Duration {
    RETRY_BACKOFF.delay_after(failures)
}

/// Event message for a slow ownership change.
pub fn slow_ownership(uid: &PodUid, volume: &PlannedVolume) -> Option<String> {
    let folder = reported_folder(uid, volume)?;
    Some(format!(
        "Setting volume ownership for {folder} is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods"
    ))
}

/// Event message for an ownership change that is still running.
pub fn still_changing(uid: &PodUid, volume: &PlannedVolume, files: u64) -> Option<String> {
    let folder = reported_folder(uid, volume)?;
    Some(format!("Setting volume ownership for {folder}, processed {files} files."))
}

/// The part of the path from the pod UID on.
fn reported_folder(uid: &PodUid, volume: &PlannedVolume) -> Option<String> {
    volume.fs_group?;
    let path = volume.plan.host_path()?;
    let from_pod: PathBuf = path.iter().skip_while(|name| *name != uid.as_str()).collect();
    let shown = if from_pod.as_os_str().is_empty() { path } else { &from_pod };
    Some(shown.display().to_string())
}

#[cfg(test)]
mod tests {
    use model::{FsGroup, FsGroupChange, VolumePlan};

    use super::*;

    #[test]
    fn each_step_has_its_message() {
        let (path, source) = ("/d".into(), "/dev/x".into());
        let device = VolumePlan::Device { path, source, read_only: false };
        let files = VolumePlan::EmptyDir { path: "/v".into() };
        for (plan, step, event, words) in [
            (&files, VolumeStep::SetUp, "FailedMount", "MountVolume.SetUp failed for volume \"pv\" : no"),
            (
                &files,
                VolumeStep::MountDevice,
                "FailedMount",
                "MountVolume.MountDevice failed for volume \"pv\" : no",
            ),
            (
                &device,
                VolumeStep::MountDevice,
                "FailedMapVolume",
                "MapVolume.SetUpDevice failed for volume \"pv\" : no",
            ),
            (
                &device,
                VolumeStep::SetUp,
                "FailedMapVolume",
                "MapVolume.MapPodDevice failed for volume \"pv\" : no",
            ),
        ] {
            assert_eq!(step_failed(plan, step, "pv", "no"), (event, words.to_owned()));
        }
    }

    #[test]
    fn reports_device_paths() {
        let settings =
            NodeSettings { root_dir: "/r".into(), ..crate::runtime_spec::pod_paths::tests::settings() };
        let path = "/r/pods/u/volumeDevices/kubernetes.io~local-volume/pv".into();
        let device = VolumePlan::Device { path, source: "/dev/x".into(), read_only: false };
        assert_eq!(
            mapped(&device, "pv", &settings),
            [
                "MapVolume.MapPodDevice succeeded for volume \"pv\" globalMapPath \
                 \"/r/plugins/kubernetes.io~local-volume/volumeDevices/pv\"",
                "MapVolume.MapPodDevice succeeded for volume \"pv\" volumeMapPath \
                 \"/r/pods/u/volumeDevices/kubernetes.io~local-volume\"",
            ]
        );
        assert!(mapped(&VolumePlan::EmptyDir { path: "/v".into() }, "v", &settings).is_empty());
    }

    #[test]
    fn retry_delay_grows_up_to_two_minutes() {
        let millis: Vec<u128> = (0..6).map(|failures| retry_after(failures).as_millis()).collect();
        assert_eq!(millis, [500, 500, 1000, 2000, 4000, 8000]);
        assert_eq!(retry_after(u32::MAX), RETRY_BACKOFF.cap);
    }

    #[test]
    fn slow_ownership_message_has_relative_path() {
        let uid = PodUid::from("u-1");
        let plan = VolumePlan::EmptyDir { path: "/var/lib/kubelet/pods/u-1/volumes/x/v".into() };
        let group = Some(FsGroup { gid: 1, change: FsGroupChange::Always });
        let volume = |fs_group| PlannedVolume {
            name: "v".into(),
            plan: plan.clone(),
            fs_group,
            label: model::VolumeLabel::None,
        };
        let first = slow_ownership(&uid, &volume(group)).unwrap();
        assert!(
            first.starts_with("Setting volume ownership for u-1/volumes/x/v is taking longer"),
            "{first}"
        );
        assert_eq!(
            still_changing(&uid, &volume(group), 7).unwrap(),
            "Setting volume ownership for u-1/volumes/x/v, processed 7 files."
        );
        assert_eq!(slow_ownership(&uid, &volume(None)), None);
    }
}
