//! Kills all processes of a container whose keeper has died.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::directories::CgroupError;

/// A process ends some milliseconds after its kill; the pauses sum up to some seconds.
const PAUSES: [u64; 12] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 1000, 2000];

pub(super) fn kill_all(cgroups: &[PathBuf]) -> Result<(), CgroupError> {
    // One hierarchy suffices: each has all processes. The freezer of version 1 stops processes that fork faster than they are killed.
    let cgroup = cgroups.iter().find(|folder| folder.join("freezer.state").exists());
    let Some(cgroup) = cgroup.or_else(|| cgroups.iter().find(|folder| folder.exists())) else {
        return Ok(());
    };
    for pause in PAUSES {
        if processes(cgroup).is_empty() {
            return Ok(());
        }
        kill_once(cgroup);
        // Runs on a thread for blocking work.
        std::thread::park_timeout(Duration::from_millis(pause));
    }
    if processes(cgroup).is_empty() { Ok(()) } else { Err(CgroupError::Busy { path: cgroup.clone() }) }
}

fn kill_once(cgroup: &Path) {
    if fs::write(cgroup.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let freezer = cgroup.join("freezer.state");
    // A cgroup without a freezer is killed again until it is empty.
    let _ = fs::write(&freezer, "FROZEN");
    for pid in processes(cgroup).into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = fs::write(&freezer, "THAWED");
}

/// The processes of a cgroup and of those below it.
fn processes(cgroup: &Path) -> Vec<i32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(processes(&entry.path()));
        }
    }
    found
}
