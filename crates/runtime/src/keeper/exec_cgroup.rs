//! A cgroup below the container's for each executed process, so that everything it started can be found and killed.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// A process that forks faster than it is killed is stopped by the freezer; without one, this many tries end it in practice.
const KILL_TRIES: usize = 200;

#[derive(Debug)]
pub(super) struct ExecCgroup {
    folder: PathBuf,
}

impl ExecCgroup {
    /// Makes the cgroup below one of `cgroups`, and replaces that one in the list. The freezer of cgroup v1 is preferred.
    pub(super) fn make(cgroups: &mut [PathBuf], exec: &str) -> std::io::Result<Option<Self>> {
        let freezer = cgroups.iter().position(|folder| folder.join("freezer.state").exists());
        let Some(parent) = cgroups.get_mut(freezer.unwrap_or(0)) else { return Ok(None) };
        let folder = parent.join(format!("exec-{exec}"));
        fs::create_dir(&folder)?;
        parent.clone_from(&folder);
        Ok(Some(Self { folder }))
    }

    /// Kills everything in the cgroup.
    pub(super) fn kill(&self) {
        kill_all(&self.folder);
    }

    /// Removes the cgroup. Processes that were left in the background go to the container's cgroup.
    pub(super) fn remove(&self) {
        let Some(parent) = self.folder.parent() else { return };
        for pid in processes(&self.folder) {
            // It may have ended meanwhile.
            let _ = fs::write(parent.join("cgroup.procs"), pid.to_string());
        }
        // An entry that stays is removed together with the container's cgroup.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Kills all processes of a cgroup.
pub(super) fn kill_all(cgroup: &Path) {
    if fs::write(cgroup.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    let freezer = cgroup.join("freezer.state");
    let frozen = fs::write(&freezer, "FROZEN").is_ok();
    for _ in 0..KILL_TRIES {
        let processes = processes(cgroup);
        if processes.is_empty() {
            break;
        }
        for pid in processes.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        if frozen {
            break;
        }
    }
    if frozen {
        let _ = fs::write(&freezer, "THAWED");
    }
}

fn processes(cgroup: &Path) -> Vec<i32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}
