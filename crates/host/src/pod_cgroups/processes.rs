//! Processes in a cgroup.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use ports::pod_folders::FileError;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use crate::failure::OnPath;

/// Kills every process directly in a cgroup, except this one. A process is killed through a descriptor taken
/// while it was seen in the cgroup before and after, so that a number that was given to another one is never hit.
pub(super) fn kill_all(cgroup: &Path) -> Result<(), FileError> {
    let file = cgroup.join("cgroup.procs");
    let mut held = Vec::new();
    for pid in pids(&file)? {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) if pid != getpid() => held.push((pid, process)),
            Ok(_) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error).on_path("open a process of cgroup", cgroup),
        }
    }
    if held.is_empty() {
        return Ok(());
    }
    let still_there = pids(&file)?;
    for (pid, process) in held {
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

/// The numbers of the processes directly in a cgroup.
pub(super) fn numbers(file: &Path) -> Result<Vec<u32>, FileError> {
    let number = |pid: Pid| u32::try_from(pid.as_raw_nonzero().get()).ok();
    Ok(pids(file)?.into_iter().filter_map(number).collect())
}

/// Process 0 stands for one that this namespace cannot see.
fn pids(file: &Path) -> Result<HashSet<Pid>, FileError> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()),
        Err(error) if is_gone(&error) => Ok(HashSet::new()),
        Err(error) => Err(error).on_path("read", file),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}
