//! What cgroups, network interfaces and file systems use, as the kernel counts it.

use crate::Timestamp;

/// Use and limits of one cgroup at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupUsage {
    /// When it was read.
    pub time: Timestamp,
    /// When the cgroup was made.
    pub created_at: Timestamp,
    /// CPU.
    pub cpu: CpuUsage,
    /// Memory.
    pub memory: MemoryUsage,
    /// Stalls; `None` where the kernel does not count them for cgroups (v1).
    pub pressure: Option<PressureUsage>,
    /// Processes in the cgroup itself; `None` where nobody asked.
    pub processes: Option<u64>,
    /// What only a full look reads.
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
    /// What cannot easily be given up: the use without files that nobody read lately.
    pub working_set: u64,
    /// Anonymous memory.
    pub rss: u64,
    /// Pages of files.
    pub cache: u64,
    /// Swap in use.
    pub swap: u64,
    /// Mapped files.
    pub mapped_file: u64,
    /// Files read lately.
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
    /// For CPU.
    pub cpu: Pressure,
    /// For memory.
    pub memory: Pressure,
    /// For disks.
    pub io: Pressure,
}

/// One resource's stalls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Times in which all tasks waited.
    pub full: Stall,
    /// Times in which some did.
    pub some: Stall,
}

/// One kind of stall.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    /// Most memory ever used.
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
    /// Threads with those below.
    pub threads: u64,
    /// Most of them; `None` for no limit.
    pub max_threads: Option<u64>,
    /// Processes in the cgroup itself.
    pub processes: ProcessUsage,
    /// Disks.
    pub io: Vec<DeviceUsage>,
}

/// Periods in which a CPU limit was in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLimitUsage {
    /// All of them.
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
    /// How many.
    pub count: u64,
    /// Files they have open.
    pub open_files: u64,
    /// Sockets among them.
    pub sockets: u64,
    /// How many files the first of them may have open; `None` without a process.
    pub open_files_limit: Option<u64>,
}

/// What was read from and written to one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// Its file, such as `/dev/vda`.
    pub device: String,
    /// Its number.
    pub major: u64,
    /// Its second number.
    pub minor: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// Traffic of one network interface since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceUsage {
    /// Name.
    pub name: String,
    /// Received.
    pub received: Traffic,
    /// Sent.
    pub sent: Traffic,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Errors.
    pub errors: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// Size of a file system and what is used of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesystemRoom {
    /// Whole size in bytes.
    pub capacity: u64,
    /// Bytes that processes without privileges may still use.
    pub available: u64,
    /// Bytes in use.
    pub used: u64,
    /// All inodes.
    pub inodes: u64,
    /// Free ones.
    pub inodes_free: u64,
}

/// What files take of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes.
    pub bytes: u64,
    /// Files, folders and links.
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

/// A mounted disk and what happened on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MountedDisk {
    /// Its file, or where it is mounted if it has none.
    pub device: String,
    /// Its size.
    pub room: FilesystemRoom,
    /// What the kernel counts of it.
    pub activity: DiskActivity,
}

/// The kernel's counters of a disk (`/proc/diskstats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskActivity {
    /// Reads completed.
    pub reads: u64,
    /// Reads merged with others.
    pub reads_merged: u64,
    /// Sectors read.
    pub sectors_read: u64,
    /// Milliseconds spent reading.
    pub read_millis: u64,
    /// Writes completed.
    pub writes: u64,
    /// Writes merged with others.
    pub writes_merged: u64,
    /// Sectors written.
    pub sectors_written: u64,
    /// Milliseconds spent writing.
    pub write_millis: u64,
    /// Requests on their way.
    pub in_progress: u64,
    /// Milliseconds in which there were any.
    pub io_millis: u64,
    /// The same, each request by itself.
    pub weighted_io_millis: u64,
}

/// How many processes there are, and how many there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCount {
    /// Highest number of a process.
    pub max: i64,
    /// Threads that exist.
    pub current: i64,
}

/// CPUs and sockets of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// Logical CPUs.
    pub logical: u64,
    /// Cores.
    pub cores: u64,
    /// Sockets.
    pub sockets: u64,
}

/// What a container's own files take, as the runtime tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WritableLayer {
    /// When it was measured.
    pub time: Timestamp,
    /// How much.
    pub used: DiskUse,
}
