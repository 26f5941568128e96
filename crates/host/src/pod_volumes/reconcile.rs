//! Bringing the journals of mounts in line with what is mounted, when the agent starts.

use std::path::{Path, PathBuf};

use ports::pod_folders::FileError;
use ports::pod_volumes::MountReport;

use super::journal::{Entry, Journal};
use crate::folder::Folder;
use crate::mount_table::{self, Mount};

/// Goes through all pod folders: entries without a mount are struck out, mounts without an entry (of another agent,
/// or of an older one) are written down. What belongs to pods that are gone is unmounted when their folders are swept.
pub(super) fn reconcile(root: &Path) -> Result<MountReport, FileError> {
    let mut report = MountReport::default();
    let Some(pods) = Folder::open(&root.join("pods"))? else { return Ok(report) };
    let base = pods.real_path()?;
    let table = mount_table::read(Path::new(mount_table::OWN))?;
    let mounts: Vec<&Mount> = mount_table::at_or_below(&table, &base);
    for name in pods.folder_names()? {
        let Some(pod) = pods.existing(&name)? else { continue };
        let journal = Journal::of(&pod);
        let known = journal.entries()?;
        let mounted = mounted_in(&mounts, &base.join(&name));
        let mut entries: Vec<Entry> = known
            .iter()
            .filter(|entry| mounted.iter().any(|(path, _)| *path == entry.path))
            .cloned()
            .collect();
        report.stale += known.len() - entries.len();
        report.live += entries.len();
        for (path, kind) in mounted {
            if !entries.iter().any(|entry| entry.path == path) {
                report.adopted += 1;
                entries.push(Entry { kind, path });
            }
        }
        if entries != known {
            journal.save(&entries)?;
        }
    }
    Ok(report)
}

/// The mounts of a pod's own folders with their kinds; what containers mounted below a volume is not ours.
fn mounted_in(mounts: &[&Mount], pod: &Path) -> Vec<(PathBuf, String)> {
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    for mount in mounts {
        let Ok(path) = mount.mount_point.strip_prefix(pod) else { continue };
        let depth = path.components().count();
        let is_volume = path.starts_with("volumes") && depth == 3;
        let is_sub_path = path.starts_with("volume-subpaths") && depth == 4;
        if (is_volume || is_sub_path) && !found.iter().any(|(known, _)| known == path) {
            let kind = if is_sub_path { "bind" } else { mount.fs_type.as_str() };
            found.push((path.to_path_buf(), kind.to_owned()));
        }
    }
    found
}
