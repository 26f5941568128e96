//! Processes of a cgroup and their open files.

use std::fs;
use std::path::Path;

use model::usage::ProcessUsage;

use super::files;

/// Counts the processes in a `cgroup.procs` file.
pub(super) fn in_cgroup(list: &Path, proc: &Path) -> ProcessUsage {
    let ids = files::lines(list);
    let mut usage = ProcessUsage {
        count: ids.len() as u64,
        open_files_limit: ids.first().and_then(|id| open_files_limit(&proc.join(id).join("limits"))),
        ..ProcessUsage::default()
    };
    for id in &ids {
        // The process may have exited.
        for file in fs::read_dir(proc.join(id).join("fd")).into_iter().flatten().flatten() {
            usage.open_files += 1;
            let target = fs::read_link(file.path()).unwrap_or_default();
            usage.sockets += u64::from(target.to_string_lossy().starts_with("socket:"));
        }
    }
    usage
}

/// Parses `Max open files            1024                 524288               files`.
fn open_files_limit(limits: &Path) -> Option<u64> {
    let text = files::text(limits)?;
    let values = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    values.split_whitespace().next()?.parse().ok()
}
