//! Reconciles the mount journals with the mount table when the agent starts.

use std::path::{Path, PathBuf};

use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::MountReport;

use super::journal::{Entry, Journal};
use crate::files::folder::Folder;
use crate::mount_table::{self, Mount};

/// For all pod folders: removes entries without a mount, and adds mounts without an entry, which another agent or an
/// older version made. Mounts of orphaned pods are unmounted later, when their folders are swept.
pub(super) fn reconcile(root: &Path) -> Result<MountReport, FileError> {
    let mut report = MountReport::default();
    let Some(pods) = Folder::open(&root.join("pods"))? else { return Ok(report) };
    let base = pods.real_path()?;
    let table = mount_table::table()?;
    let mounts: Vec<&Mount> = mount_table::at_or_below(&table, &base);
    for name in pods.folder_names()? {
        let Some(pod) = pods.existing(&name)? else { continue };
        let journal = Journal::of(&pod);
        let recorded = journal.entries()?;
        let mounted = mounted_in(&mounts, &base.join(&name));
        let mut entries: Vec<Entry> = recorded
            .iter()
            .filter(|entry| mounted.iter().any(|(path, _)| *path == entry.path))
            .cloned()
            .collect();
        report.stale += recorded.len() - entries.len();
        report.live += entries.len();
        for (path, kind) in mounted {
            if !entries.iter().any(|entry| entry.path == path) {
                report.adopted += 1;
                entries.push(Entry { kind, path });
            }
        }
        if entries != recorded {
            journal.save(&entries)?;
        }
    }
    Ok(report)
}

/// The mounts of volumes and subpaths of a pod with their kinds, without mounts that containers made inside a volume.
fn mounted_in(mounts: &[&Mount], pod: &Path) -> Vec<(PathBuf, String)> {
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    for mount in mounts {
        let Ok(path) = mount.mount_point.strip_prefix(pod) else { continue };
        let depth = path.components().count();
        let is_volume = path.starts_with("volumes") && depth == 3;
        let is_sub_path = path.starts_with("volume-subpaths") && depth == 4;
        if (is_volume || is_sub_path) && !found.iter().any(|(seen, _)| seen == path) {
            let kind = if is_sub_path { "bind" } else { mount.fs_type.as_str() };
            found.push((path.to_path_buf(), kind.to_owned()));
        }
    }
    found
}
