//! Cgroups of version 2: one folder for all controllers.

use std::path::{Path, PathBuf};

use model::usage::{CgroupUsage, CpuLimitUsage, CpuUsage, DeviceUsage, FullUsage, MemoryUsage};
use ports::host::usage::Detail;

use super::files::{self, KernelFolder, Table};
use super::{disks, pressure, processes};
use crate::machine::meminfo_bytes;

pub(super) struct Cgroup<'a> {
    /// Mount point of the hierarchy.
    pub(super) root: &'a Path,
    /// For example `/kubepods`.
    pub(super) path: &'a str,
    /// Usually `/proc`.
    pub(super) proc: &'a Path,
    pub(super) folder: &'a KernelFolder,
}

impl Cgroup<'_> {
    fn file(&self, name: &str) -> PathBuf {
        files::below(self.root, self.path).join(name)
    }

    fn number(&self, name: &str) -> u64 {
        self.folder.number(name).unwrap_or_default()
    }

    fn is_root(&self) -> bool {
        self.path.trim_matches('/').is_empty()
    }
}

/// `None` if the cgroup does not exist.
pub(super) fn read(cgroup: &Cgroup<'_>, detail: Detail) -> Option<CgroupUsage> {
    let cpu = cgroup.folder.table("cpu.stat");
    if cpu.is_empty() {
        return None;
    }
    let statistics = cgroup.folder.table("memory.stat");
    let stalls = || {
        let own = pressure::of(&cgroup.file(""), ".pressure");
        own.or_else(|| cgroup.is_root().then(|| pressure::of(&cgroup.proc.join("pressure"), ""))?)
    };
    Some(CgroupUsage {
        time: files::now(),
        created_at: (detail > Detail::Basic)
            .then(|| cgroup.folder.changed_at())
            .flatten()
            .unwrap_or_default(),
        cpu: CpuUsage { total: cpu.get("usage_usec").saturating_mul(1000) },
        memory: memory(cgroup, &statistics, detail),
        processes: (detail >= Detail::Summary).then(|| cgroup.folder.count_lines("cgroup.procs")),
        pressure: if detail == Detail::Basic { None } else { stalls() },
        full: (detail == Detail::Full).then(|| Box::new(full(cgroup, &cpu))),
    })
}

fn memory(cgroup: &Cgroup<'_>, statistics: &Table, detail: Detail) -> MemoryUsage {
    // The root cgroup has no counter: all memory that is not free counts as used.
    let (usage, swap) = if cgroup.is_root() {
        let text = files::text(&cgroup.proc.join("meminfo")).unwrap_or_default();
        let bytes = |name: &str| meminfo_bytes(&text, name).unwrap_or_default();
        let used = |all: &str, free: &str| bytes(all).saturating_sub(bytes(free));
        (used("MemTotal:", "MemFree:"), used("SwapTotal:", "SwapFree:"))
    } else {
        (cgroup.number("memory.current"), cgroup.number("memory.swap.current"))
    };
    let [inactive_file, rss, cache, mapped_file, active_file, page_faults, major_page_faults] = statistics
        .values(["inactive_file", "anon", "file", "file_mapped", "active_file", "pgfault", "pgmajfault"]);
    MemoryUsage {
        usage,
        working_set: usage.saturating_sub(inactive_file),
        rss,
        cache,
        swap,
        mapped_file,
        active_file,
        inactive_file,
        page_faults,
        major_page_faults,
        limit: if detail == Detail::Basic { None } else { cgroup.folder.limit("memory.max") },
        swap_limit: cgroup.folder.limit("memory.swap.max"),
    }
}

fn full(cgroup: &Cgroup<'_>, cpu: &Table) -> FullUsage {
    let events = cgroup.folder.table("memory.events");
    let own_events = cgroup.folder.table("memory.events.local");
    let bandwidth = files::text(&cgroup.file("cpu.max")).unwrap_or_default();
    let (quota, period) = bandwidth.trim().split_once(' ').unwrap_or_default();
    let nanoseconds = |name: &str| cpu.get(name).saturating_mul(1000);
    FullUsage {
        cpu_user: nanoseconds("user_usec"),
        cpu_system: nanoseconds("system_usec"),
        cpu_limit: CpuLimitUsage {
            periods: cpu.get("nr_periods"),
            throttled_periods: cpu.get("nr_throttled"),
            throttled: nanoseconds("throttled_usec"),
            burst_periods: cpu.get("nr_bursts"),
            burst: nanoseconds("burst_usec"),
        },
        max_memory: cgroup.number("memory.peak"),
        // cAdvisor reads both from files of v1 only.
        memory_failures: 0,
        kernel_memory: 0,
        oom_kills: own_events.find("oom_kill").unwrap_or_else(|| events.get("oom_kill")),
        memory_reservation: cgroup.folder.limit("memory.high"),
        cpu_shares: (cgroup.folder.number("cpu.weight")).map(crate::cgroups::cpu_shares).unwrap_or_default(),
        cpu_period: period.parse().unwrap_or_default(),
        cpu_quota: quota.parse().ok(),
        threads: cgroup.number("pids.current"),
        max_threads: cgroup.folder.number("pids.max"),
        processes: processes::in_cgroup(&cgroup.file("cgroup.procs"), cgroup.proc),
        io: files::lines(&cgroup.file("io.stat")).iter().filter_map(|line| io(cgroup, line)).collect(),
    }
}

/// Parses `254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`.
fn io(cgroup: &Cgroup<'_>, line: &str) -> Option<DeviceUsage> {
    let (number, values) = line.split_once(' ')?;
    let (major, minor) = number.split_once(':')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    let value = |name: &str| {
        let found =
            values.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        found.unwrap_or_default()
    };
    Some(DeviceUsage {
        device: disks::name(cgroup.proc, major, minor).unwrap_or_default(),
        major,
        minor,
        read_bytes: value("rbytes"),
        written_bytes: value("wbytes"),
        reads: value("rios"),
        writes: value("wios"),
    })
}
