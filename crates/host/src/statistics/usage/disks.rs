//! Mounted disks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use model::usage::{DiskActivity, FilesystemRoom, MountedDisk};

use super::files;
use crate::mount_table;

/// File systems on disks, and tmpfs.
const REPORTED_TYPES: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "tmpfs"];

/// Every mounted disk once, and every tmpfs by its mount point.
pub(super) fn mounted(proc: &Path) -> Vec<MountedDisk> {
    let mounts = mount_table::read(&proc.join("self/mountinfo")).unwrap_or_default();
    let statistics = files::text(&proc.join("diskstats")).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut disks = BTreeMap::new();
    let is_reported = |mount: &&mount_table::Mount| {
        REPORTED_TYPES.contains(&mount.fs_type.as_str()) && !belongs_to_pod(&mount.mount_point)
    };
    for mount in mounts.iter().filter(is_reported) {
        if !seen.insert(mount.device.clone()) {
            continue;
        }
        let Some(room) = room(&mount.mount_point) else { continue };
        let (name, activity) = match activity(&statistics, &mount.device) {
            Some((name, activity)) => (format!("/dev/{name}"), activity),
            None if mount.fs_type == "tmpfs" => {
                (mount.mount_point.display().to_string(), DiskActivity::default())
            }
            None => continue,
        };
        disks.entry(name.clone()).or_insert(MountedDisk { device: name, room, activity });
    }
    disks.into_values().collect()
}

/// Volumes of pods and shared memory of sandboxes, which are reported elsewhere.
fn belongs_to_pod(mount_point: &Path) -> bool {
    let text = mount_point.to_string_lossy();
    text.contains("/kubernetes.io~") || (text.ends_with("/shm") && text != "/dev/shm")
}

pub(crate) fn room(path: &Path) -> Option<FilesystemRoom> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let unit = if stat.f_frsize == 0 { stat.f_bsize } else { stat.f_frsize };
    Some(FilesystemRoom {
        capacity: stat.f_blocks.saturating_mul(unit),
        available: stat.f_bavail.saturating_mul(unit),
        used: stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(unit),
        inodes: stat.f_files,
        inodes_free: stat.f_ffree,
    })
}

/// Name and counters of a device in `diskstats`: `254 0 vda 1 2 3 …`.
fn activity(statistics: &str, device: &str) -> Option<(String, DiskActivity)> {
    let (major, minor) = device.split_once(':')?;
    let fields = statistics.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.first() == Some(&major) && fields.get(1) == Some(&minor)).then_some(fields)
    })?;
    let value = |index: usize| fields.get(index + 3).and_then(|text| text.parse().ok()).unwrap_or_default();
    let activity = DiskActivity {
        reads: value(0),
        reads_merged: value(1),
        sectors_read: value(2),
        read_millis: value(3),
        writes: value(4),
        writes_merged: value(5),
        sectors_written: value(6),
        write_millis: value(7),
        in_progress: value(8),
        io_millis: value(9),
        weighted_io_millis: value(10),
    };
    Some(((*fields.get(2)?).to_owned(), activity))
}

/// The device file of a device number, from `/proc/diskstats`.
pub(super) fn name(proc: &Path, major: u64, minor: u64) -> Option<String> {
    let statistics = files::text(&proc.join("diskstats"))?;
    activity(&statistics, &format!("{major}:{minor}")).map(|(name, _)| format!("/dev/{name}"))
}
