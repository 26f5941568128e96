//! Cgroups of version 1: one folder for each controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::Timestamp;
use model::usage::{CgroupUsage, CpuLimitUsage, CpuUsage, DeviceUsage, FullUsage, MemoryUsage};
use ports::usage::Detail;

use super::files::{self, Table};
use super::{disks, limits, processes};

/// Nanoseconds of a tick in `cpuacct.stat`.
const TICK: u64 = 10_000_000;

/// One cgroup.
pub(super) struct Cgroup<'a> {
    /// Where the controllers are.
    pub(super) controllers: &'a BTreeMap<String, PathBuf>,
    /// Such as `/kubepods`.
    pub(super) path: &'a str,
    /// Such as `/proc`.
    pub(super) proc: &'a Path,
}

impl Cgroup<'_> {
    fn file(&self, controller: &str, name: &str) -> PathBuf {
        let root = self.controllers.get(controller).cloned().unwrap_or_default();
        files::below(&root, self.path).join(name)
    }

    fn number(&self, controller: &str, name: &str) -> u64 {
        files::number(&self.file(controller, name)).unwrap_or_default()
    }
}

/// Reads it; `None` when it does not exist.
pub(super) fn read(cgroup: &Cgroup<'_>, detail: Detail) -> Option<CgroupUsage> {
    let total = files::number(&cgroup.file("cpuacct", "cpuacct.usage"))?;
    let statistics = Table::read(&cgroup.file("memory", "memory.stat"));
    Some(CgroupUsage {
        time: files::now(),
        created_at: match detail {
            Detail::Basic => Timestamp::ZERO,
            Detail::Summary | Detail::Full => {
                files::changed_at(&cgroup.file("cpuacct", "")).unwrap_or_default()
            }
        },
        cpu: CpuUsage { total },
        memory: memory(cgroup, &statistics, detail),
        pressure: None,
        processes: (detail >= Detail::Summary)
            .then(|| files::lines(&cgroup.file("cpuacct", "cgroup.procs")).len() as u64),
        full: (detail == Detail::Full).then(|| Box::new(full(cgroup))),
    })
}

fn memory(cgroup: &Cgroup<'_>, statistics: &Table, detail: Detail) -> MemoryUsage {
    let usage = cgroup.number("memory", "memory.usage_in_bytes");
    let inactive_file = statistics.get("total_inactive_file");
    MemoryUsage {
        usage,
        working_set: usage.saturating_sub(inactive_file),
        rss: statistics.get("total_rss"),
        cache: statistics.get("total_cache"),
        swap: statistics.get("total_swap"),
        mapped_file: statistics.get("total_mapped_file"),
        active_file: statistics.get("total_active_file"),
        inactive_file,
        page_faults: statistics.get("pgfault"),
        major_page_faults: statistics.get("pgmajfault"),
        limit: match detail {
            Detail::Basic => None,
            Detail::Summary | Detail::Full => limits::bytes(&cgroup.file("memory", "memory.limit_in_bytes")),
        },
        swap_limit: limits::bytes(&cgroup.file("memory", "memory.memsw.limit_in_bytes")),
    }
}

fn full(cgroup: &Cgroup<'_>) -> FullUsage {
    let times = Table::read(&cgroup.file("cpuacct", "cpuacct.stat"));
    let bandwidth = Table::read(&cgroup.file("cpu", "cpu.stat"));
    let oom = Table::read(&cgroup.file("memory", "memory.oom_control"));
    FullUsage {
        cpu_user: times.get("user").saturating_mul(TICK),
        cpu_system: times.get("system").saturating_mul(TICK),
        cpu_limit: CpuLimitUsage {
            periods: bandwidth.get("nr_periods"),
            throttled_periods: bandwidth.get("nr_throttled"),
            throttled: bandwidth.get("throttled_time"),
            burst_periods: bandwidth.get("nr_bursts"),
            burst: bandwidth.get("burst_time"),
        },
        max_memory: cgroup.number("memory", "memory.max_usage_in_bytes"),
        memory_failures: cgroup.number("memory", "memory.failcnt"),
        kernel_memory: cgroup.number("memory", "memory.kmem.usage_in_bytes"),
        oom_kills: oom.get("oom_kill"),
        memory_reservation: limits::bytes(&cgroup.file("memory", "memory.soft_limit_in_bytes")),
        cpu_shares: cgroup.number("cpu", "cpu.shares"),
        cpu_period: cgroup.number("cpu", "cpu.cfs_period_us"),
        // -1 for no limit, which is no number here.
        cpu_quota: files::number(&cgroup.file("cpu", "cpu.cfs_quota_us")),
        threads: cgroup.number("pids", "pids.current"),
        max_threads: files::number(&cgroup.file("pids", "pids.max")),
        processes: processes::in_cgroup(&cgroup.file("cpuacct", "cgroup.procs"), cgroup.proc),
        io: io(cgroup),
    }
}

/// `254:0 Read 4096` and so on, in two files.
fn io(cgroup: &Cgroup<'_>) -> Vec<DeviceUsage> {
    let mut devices: BTreeMap<(u64, u64), DeviceUsage> = BTreeMap::new();
    let mut read = |name: &str, add: fn(&mut DeviceUsage, &str, u64)| {
        for line in files::lines(&cgroup.file("blkio", name)) {
            let mut fields = line.split(' ');
            let number = fields.next().and_then(|text| {
                let (major, minor) = text.split_once(':')?;
                Some((major.parse().ok()?, minor.parse().ok()?))
            });
            let (Some(number), Some(operation), Some(value)) = (number, fields.next(), fields.next()) else {
                continue;
            };
            let device = devices.entry(number).or_default();
            add(device, operation, value.parse().unwrap_or_default());
        }
    };
    read("blkio.throttle.io_service_bytes_recursive", |device, operation, value| match operation {
        "Read" => device.read_bytes = value,
        "Write" => device.written_bytes = value,
        _ => {}
    });
    read("blkio.throttle.io_serviced_recursive", |device, operation, value| match operation {
        "Read" => device.reads = value,
        "Write" => device.writes = value,
        _ => {}
    });
    let named = |((major, minor), device): ((u64, u64), DeviceUsage)| DeviceUsage {
        device: disks::name(cgroup.proc, major, minor).unwrap_or_default(),
        major,
        minor,
        ..device
    };
    devices.into_iter().map(named).collect()
}
