//! Readers of /proc: processes, their resource usage and mounts.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

pub fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Arguments joined with spaces.
pub fn command_line(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
}

/// Start time of the process in clock ticks since boot. With the process ID it identifies a process.
pub fn start_ticks(pid: u32) -> Option<u64> {
    stat(pid)?.get(19)?.parse().ok()
}

/// Whether the process has exited but has not been reaped.
pub fn is_zombie(pid: u32) -> bool {
    stat(pid).is_none_or(|fields| matches!(fields.first().map(String::as_str), Some("Z" | "X")))
}

/// CPU time used so far in user and kernel mode, from the process's CPU clock: `/proc` counts in steps of 10 ms.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).ok()?);
    let clock = nix::time::clock_getcpuclockid(pid).ok()?;
    Some(nix::time::clock_gettime(clock).ok()?.into())
}

pub fn resident_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Resident memory, in which a page counts in parts for the processes that share it.
pub fn proportional_kib(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Mount points in mount order.
pub fn mount_points() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned).collect()
}

/// Mount points of the cgroup hierarchies (one on v2, one per controller on v1).
pub fn cgroup_mounts() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let rows = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let rows = rows.filter(|row| matches!(row.get(2), Some(&("cgroup" | "cgroup2"))));
    rows.filter_map(|row| row.get(1).map(PathBuf::from)).collect()
}

/// Fields of `/proc/PID/stat` after the command name, which may contain spaces: state is field 0.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = text.rsplit_once(") ")?.1;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_process() {
        let own = std::process::id();
        assert!(all().contains(&own));
        assert!(start_ticks(own).is_some_and(|ticks| ticks > 0));
        assert!(!is_zombie(own));
        assert!(resident_kib(own).is_some_and(|kib| kib > 100));
        assert!(proportional_kib(own).is_some_and(|kib| kib > 100));
        assert!(cpu_time(own).is_some());
    }

    #[test]
    fn exited_process_has_no_values() {
        assert_eq!(start_ticks(0), None);
        assert!(is_zombie(0));
    }
}
