use std::path::PathBuf;
use std::time::Duration;

use model::{PlannedVolume, PodUid};

const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(122);

/// The message of a volume whose set-up failed.
#[must_use]
pub fn set_up_failed(volume: &str, reason: &str) -> String {
    format!("MountVolume.SetUp failed for volume {volume:?} : {reason}")
}

/// The wait before the next try after so many failures in a row.
#[must_use]
pub fn retry_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    FIRST_RETRY.saturating_mul(1 << doublings).min(LONGEST_RETRY)
}

/// What users are told when giving a volume to the pod's group takes long.
#[must_use]
pub fn slow_ownership(uid: &PodUid, volume: &PlannedVolume) -> Option<String> {
    let folder = reported_folder(uid, volume)?;
    Some(format!(
        "Setting volume ownership for {folder} is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods"
    ))
}

/// What users are told when it still goes on.
#[must_use]
pub fn still_changing(uid: &PodUid, volume: &PlannedVolume, files: u64) -> Option<String> {
    let folder = reported_folder(uid, volume)?;
    Some(format!("Setting volume ownership for {folder}, processed {files} files."))
}

/// The part of the path that begins with the pod.
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
    fn tries_come_ever_later_up_to_two_minutes() {
        let millis: Vec<u128> = (0..6).map(|failures| retry_after(failures).as_millis()).collect();
        assert_eq!(millis, [500, 500, 1000, 2000, 4000, 8000]);
        assert_eq!(retry_after(u32::MAX), LONGEST_RETRY);
    }

    #[test]
    fn slow_changes_are_told_with_the_path_below_the_pods() {
        let uid = PodUid::from("u-1");
        let plan = VolumePlan::EmptyDir { path: "/var/lib/kubelet/pods/u-1/volumes/x/v".into() };
        let group = Some(FsGroup { gid: 1, change: FsGroupChange::Always });
        let volume = |fs_group| PlannedVolume { name: "v".into(), plan: plan.clone(), fs_group };
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
