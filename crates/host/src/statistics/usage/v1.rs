//! Cgroups of version 1: one folder per controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::usage::{CgroupUsage, CpuLimitUsage, CpuUsage, DeviceUsage, FullUsage, MemoryUsage};
use ports::host::usage::Detail;

use super::files::{self, KernelFolder, Table};
use super::{disks, processes};

/// Length of a tick in `cpuacct.stat`.
const TICK_NANOS: u64 = 10_000_000;

pub(super) struct Cgroup<'a> {
    /// Mount points of the controllers.
    pub(super) controllers: &'a BTreeMap<String, PathBuf>,
    /// For example `/kubepods`.
    pub(super) path: &'a str,
    /// Usually `/proc`.
    pub(super) proc: &'a Path,
    pub(super) folders: &'a Folders,
}

/// The folders that are read at every level of detail.
pub(super) struct Folders {
    pub(super) cpu: KernelFolder,
    memory: Option<KernelFolder>,
}

impl Folders {
    /// `None` if the cgroup does not exist.
    pub(super) fn open(controllers: &BTreeMap<String, PathBuf>, path: &str) -> Option<Self> {
        let open = |controller: &str| KernelFolder::open(&files::below(controllers.get(controller)?, path));
        Some(Self { cpu: open("cpuacct")?, memory: open("memory") })
    }

    /// The folders of a child cgroup.
    pub(super) fn below(&self, name: &str) -> Option<Self> {
        let memory = self.memory.as_ref().and_then(|memory| memory.below(name));
        Some(Self { cpu: self.cpu.below(name)?, memory })
    }

    fn memory_number(&self, name: &str) -> u64 {
        self.memory.as_ref().and_then(|memory| memory.number(name)).unwrap_or_default()
    }

    fn memory_table(&self, name: &str) -> Table {
        self.memory.as_ref().map(|memory| memory.table(name)).unwrap_or_default()
    }

    fn memory_limit(&self, name: &str) -> Option<u64> {
        self.memory.as_ref()?.limit(name)
    }
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

/// `None` if the cgroup does not exist.
pub(super) fn read(cgroup: &Cgroup<'_>, detail: Detail) -> Option<CgroupUsage> {
    let cpu = &cgroup.folders.cpu;
    let total = cpu.number("cpuacct.usage")?;
    Some(CgroupUsage {
        time: files::now(),
        created_at: (detail > Detail::Basic).then(|| cpu.changed_at()).flatten().unwrap_or_default(),
        cpu: CpuUsage { total },
        memory: memory(cgroup.folders, detail),
        pressure: None,
        processes: (detail >= Detail::Summary).then(|| cpu.count_lines("cgroup.procs")),
        full: (detail == Detail::Full).then(|| Box::new(full(cgroup))),
    })
}

fn memory(folders: &Folders, detail: Detail) -> MemoryUsage {
    let usage = folders.memory_number("memory.usage_in_bytes");
    let [inactive_file, rss, cache, swap, mapped_file, active_file, page_faults, major_page_faults] =
        folders.memory_table("memory.stat").values([
            "total_inactive_file",
            "total_rss",
            "total_cache",
            "total_swap",
            "total_mapped_file",
            "total_active_file",
            "pgfault",
            "pgmajfault",
        ]);
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
        limit: if detail == Detail::Basic { None } else { folders.memory_limit("memory.limit_in_bytes") },
        swap_limit: folders.memory_limit("memory.memsw.limit_in_bytes"),
    }
}

fn full(cgroup: &Cgroup<'_>) -> FullUsage {
    let folders = cgroup.folders;
    let times = folders.cpu.table("cpuacct.stat");
    let bandwidth = Table::read(&cgroup.file("cpu", "cpu.stat"));
    let oom = folders.memory_table("memory.oom_control");
    FullUsage {
        cpu_user: times.get("user").saturating_mul(TICK_NANOS),
        cpu_system: times.get("system").saturating_mul(TICK_NANOS),
        cpu_limit: CpuLimitUsage {
            periods: bandwidth.get("nr_periods"),
            throttled_periods: bandwidth.get("nr_throttled"),
            throttled: bandwidth.get("throttled_time"),
            burst_periods: bandwidth.get("nr_bursts"),
            burst: bandwidth.get("burst_time"),
        },
        max_memory: folders.memory_number("memory.max_usage_in_bytes"),
        memory_failures: folders.memory_number("memory.failcnt"),
        kernel_memory: folders.memory_number("memory.kmem.usage_in_bytes"),
        oom_kills: oom.get("oom_kill"),
        memory_reservation: folders.memory_limit("memory.soft_limit_in_bytes"),
        cpu_shares: cgroup.number("cpu", "cpu.shares"),
        cpu_period: cgroup.number("cpu", "cpu.cfs_period_us"),
        // -1 means no limit and does not parse as unsigned.
        cpu_quota: files::number(&cgroup.file("cpu", "cpu.cfs_quota_us")),
        threads: cgroup.number("pids", "pids.current"),
        max_threads: files::number(&cgroup.file("pids", "pids.max")),
        processes: processes::in_cgroup(&cgroup.file("cpuacct", "cgroup.procs"), cgroup.proc),
        io: io(cgroup),
    }
}

/// Two files with lines such as `254:0 Read 4096`.
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
