//! Lists and kills the processes of a cgroup.

use std::collections::HashSet;
use std::path::Path;

use ports::host::pod_folders::FileError;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::hierarchies::is_removed;
use crate::errors::OnPath;

/// Kills every process directly in a cgroup, except this one. Opens a pidfd per process and reads the list again
/// before it kills, so that a reused PID is never hit.
pub(super) fn kill_all(cgroup: &Path) -> Result<(), FileError> {
    let file = cgroup.join("cgroup.procs");
    let mut opened = Vec::new();
    for pid in pids(&file)? {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) if pid != getpid() => opened.push((pid, process)),
            Ok(_) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error).on_path("open a process of cgroup", cgroup),
        }
    }
    if opened.is_empty() {
        return Ok(());
    }
    let still_there = pids(&file)?;
    for (pid, process) in opened {
        if !still_there.contains(&pid) {
            continue;
        }
        match pidfd_send_signal(process, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error).on_path("kill a process of cgroup", cgroup),
        }
    }
    Ok(())
}

pub(super) fn raw_pids(file: &Path) -> Result<Vec<u32>, FileError> {
    let number = |pid: Pid| u32::try_from(pid.as_raw_nonzero().get()).ok();
    Ok(pids(file)?.into_iter().filter_map(number).collect())
}

/// Skips PID 0, which stands for a process outside of this PID namespace.
fn pids(file: &Path) -> Result<HashSet<Pid>, FileError> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()),
        Err(error) if is_removed(&error) => Ok(HashSet::new()),
        Err(error) => Err(error).on_path("read", file),
    }
}
