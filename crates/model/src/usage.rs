//! Use of cgroups, network interfaces and file systems, as counted by the kernel.

use serde::Serialize;

use crate::Timestamp;

/// Use and limits of one cgroup at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupUsage {
    pub time: Timestamp,
    /// When the cgroup was made.
    pub created_at: Timestamp,
    pub cpu: CpuUsage,
    pub memory: MemoryUsage,
    /// Stalls; `None` where the kernel does not count them for cgroups (v1).
    pub pressure: Option<PressureUsage>,
    /// Processes in the cgroup itself; `None` when not read.
    pub processes: Option<u64>,
    /// Read only with full detail.
    pub full: Option<Box<FullUsage>>,
}

/// CPU time of a cgroup since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUsage {
    /// All of it, in nanoseconds.
    pub total: u64,
}

/// Memory of a cgroup with everything below it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// All of it, caches included.
    pub usage: u64,
    /// Use without inactive page cache.
    pub working_set: u64,
    pub rss: u64,
    pub cache: u64,
    pub swap: u64,
    pub mapped_file: u64,
    pub active_file: u64,
    /// Files not read lately.
    pub inactive_file: u64,
    /// Page faults: on v1 of the cgroup alone, on v2 with those below.
    pub page_faults: u64,
    /// Those of them that had to read from a disk.
    pub major_page_faults: u64,
    /// Most it may use; `None` for no limit.
    pub limit: Option<u64>,
    /// Most swap it may use, on v1 memory and swap together; `None` for no limit.
    pub swap_limit: Option<u64>,
}

/// How long tasks waited for something, by resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureUsage {
    pub cpu: Pressure,
    pub memory: Pressure,
    pub io: Pressure,
}

/// One resource's stalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pressure {
    /// Times in which all tasks waited.
    pub full: Stall,
    /// Times in which some did.
    pub some: Stall,
}

/// One kind of stall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stall {
    /// Microseconds since the cgroup was made.
    pub total: u64,
    /// Percentage of the last ten seconds.
    pub avg10: f64,
    /// Percentage of the last minute.
    pub avg60: f64,
    /// Percentage of the last five minutes.
    pub avg300: f64,
}

/// The rest of what a cgroup uses and may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FullUsage {
    /// CPU time in user mode, in nanoseconds.
    pub cpu_user: u64,
    /// CPU time in kernel mode, in nanoseconds.
    pub cpu_system: u64,
    /// Periods in which a CPU limit was in force.
    pub cpu_limit: CpuLimitUsage,
    pub max_memory: u64,
    /// How often the memory limit was hit.
    pub memory_failures: u64,
    /// Memory of the kernel itself.
    pub kernel_memory: u64,
    /// Processes killed because memory ran out.
    pub oom_kills: u64,
    /// Memory it is held to when memory is short; `None` for none.
    pub memory_reservation: Option<u64>,
    /// `cpu.shares`.
    pub cpu_shares: u64,
    /// Length of a period in microseconds.
    pub cpu_period: u64,
    /// Share of it in microseconds; `None` for no limit.
    pub cpu_quota: Option<u64>,
    pub threads: u64,
    /// Most of them; `None` for no limit.
    pub max_threads: Option<u64>,
    /// Processes in the cgroup itself.
    pub processes: ProcessUsage,
    pub io: Vec<DeviceUsage>,
}

/// Periods in which a CPU limit was in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLimitUsage {
    pub periods: u64,
    /// Those in which the limit was hit.
    pub throttled_periods: u64,
    /// For how long, in nanoseconds.
    pub throttled: u64,
    /// Those in which saved-up time was used.
    pub burst_periods: u64,
    /// How much of it, in nanoseconds.
    pub burst: u64,
}

/// The processes in a cgroup itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    pub count: u64,
    pub open_files: u64,
    pub sockets: u64,
    /// How many files the first of them may have open; `None` without a process.
    pub open_files_limit: Option<u64>,
}

/// I/O of one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// Its file, such as `/dev/vda`.
    pub device: String,
    pub major: u64,
    /// Its second number.
    pub minor: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

/// Traffic of one network interface since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceUsage {
    pub name: String,
    pub received: Traffic,
    pub sent: Traffic,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub bytes: u64,
    pub packets: u64,
    pub errors: u64,
    pub dropped: u64,
}

/// Size of a file system and what is used of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesystemRoom {
    /// Whole size in bytes.
    pub capacity: u64,
    /// Bytes that processes without privileges may still use.
    pub available: u64,
    pub used: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

/// Disk use of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub bytes: u64,
    pub inodes: u64,
}

impl std::ops::Add for DiskUse {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// Disk use of a folder with everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUse {
    pub used: DiskUse,
    /// Otherwise counting took too long, and the real use is larger.
    pub is_complete: bool,
}

/// A mounted disk and what happened on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MountedDisk {
    /// Its file, or where it is mounted if it has none.
    pub device: String,
    pub room: FilesystemRoom,
    /// I/O counters.
    pub activity: DiskActivity,
}

/// The kernel's counters of a disk (`/proc/diskstats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskActivity {
    pub reads: u64,
    pub reads_merged: u64,
    pub sectors_read: u64,
    /// Milliseconds spent reading.
    pub read_millis: u64,
    pub writes: u64,
    pub writes_merged: u64,
    pub sectors_written: u64,
    /// Milliseconds spent writing.
    pub write_millis: u64,
    pub in_progress: u64,
    /// Milliseconds in which there were any.
    pub io_millis: u64,
    /// Sum over all requests.
    pub weighted_io_millis: u64,
}

/// How many processes there are, and how many there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCount {
    /// Highest number of a process.
    pub max: i64,
    pub current: i64,
}

/// CPUs and sockets of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology {
    pub logical: u64,
    pub cores: u64,
    pub sockets: u64,
}

/// Disk use of a container's writable layer, as reported by the runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WritableLayer {
    pub time: Timestamp,
    pub used: DiskUse,
}
