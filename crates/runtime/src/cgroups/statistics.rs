//! Resource usage of a cgroup, read from its files.

use std::fs;
use std::path::Path;

use super::directories::ContainerCgroup;
use super::layout::CgroupLayout;
use super::pressure::Pressure;

/// Cgroup v1 writes a number near 2^63 for "no limit".
const NO_LIMIT: u64 = 1 << 62;

/// Numbers without a value were not available.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CgroupStatistics {
    pub cpu_nanoseconds: Option<u64>,
    pub memory: Option<MemoryStatistics>,
    pub processes: Option<u64>,
    /// Cgroup v1 has no pressure.
    pub cpu_pressure: Option<Pressure>,
    pub memory_pressure: Option<Pressure>,
    pub io_pressure: Option<Pressure>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatistics {
    pub usage: u64,
    /// Without what the kernel can take back at once.
    pub working_set: u64,
    pub rss: u64,
    pub page_faults: u64,
    pub major_page_faults: u64,
    pub limit: Option<u64>,
    pub swap_usage: Option<u64>,
    pub swap_limit: Option<u64>,
}

impl ContainerCgroup {
    /// Reads the files. A removed cgroup has no numbers.
    #[must_use]
    pub fn statistics(&self) -> CgroupStatistics {
        let read = |controller: &str, file: &str| self.read(controller, file);
        match self.layout() {
            CgroupLayout::V1 { .. } => v1(read),
            CgroupLayout::V2 { .. } => v2(read),
        }
    }

    /// The content of a file, for example `pids.max` of `pids`.
    pub(crate) fn read(&self, controller: &str, file: &str) -> Option<String> {
        let directory = self.directory_of(controller).ok()?;
        fs::read_to_string(Path::new(&directory).join(file)).ok()
    }
}

fn number(text: Option<String>) -> Option<u64> {
    text?.trim().parse().ok()
}

fn field(text: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

fn v1(read: impl Fn(&str, &str) -> Option<String>) -> CgroupStatistics {
    let limit = |value: Option<u64>| value.filter(|value| *value < NO_LIMIT);
    let memory = || {
        let usage = number(read("memory", "memory.usage_in_bytes"))?;
        let stat = read("memory", "memory.stat")?;
        let memory_limit = limit(number(read("memory", "memory.limit_in_bytes")));
        let both_limit = limit(number(read("memory", "memory.memsw.limit_in_bytes")));
        let both = number(read("memory", "memory.memsw.usage_in_bytes"));
        Some(MemoryStatistics {
            usage,
            working_set: usage.saturating_sub(field(&stat, "total_inactive_file")),
            rss: field(&stat, "total_rss"),
            page_faults: field(&stat, "total_pgfault"),
            major_page_faults: field(&stat, "total_pgmajfault"),
            limit: memory_limit,
            swap_usage: both.map(|both| both.saturating_sub(usage)),
            swap_limit: both_limit.zip(memory_limit).map(|(both, memory)| both.saturating_sub(memory)),
        })
    };
    CgroupStatistics {
        cpu_nanoseconds: number(read("cpuacct", "cpuacct.usage")),
        memory: memory(),
        processes: number(read("pids", "pids.current")),
        ..CgroupStatistics::default()
    }
}

fn v2(read: impl Fn(&str, &str) -> Option<String>) -> CgroupStatistics {
    let memory = || {
        let usage = number(read("memory", "memory.current"))?;
        let stat = read("memory", "memory.stat")?;
        Some(MemoryStatistics {
            usage,
            working_set: usage.saturating_sub(field(&stat, "inactive_file")),
            rss: field(&stat, "anon"),
            page_faults: field(&stat, "pgfault"),
            major_page_faults: field(&stat, "pgmajfault"),
            // The text `max` is no number.
            limit: number(read("memory", "memory.max")),
            swap_usage: number(read("memory", "memory.swap.current")),
            swap_limit: number(read("memory", "memory.swap.max")),
        })
    };
    let pressure = |controller: &str| Pressure::parse(&read(controller, &format!("{controller}.pressure"))?);
    CgroupStatistics {
        cpu_pressure: pressure("cpu"),
        memory_pressure: pressure("memory"),
        io_pressure: pressure("io"),
        cpu_nanoseconds: read("cpu", "cpu.stat").map(|stat| field(&stat, "usage_usec") * 1000),
        memory: memory(),
        processes: number(read("pids", "pids.current")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&str, &str) -> Option<String> + 'a {
        move |_, wanted| {
            files.iter().find(|(name, _)| *name == wanted).map(|(_, content)| (*content).to_owned())
        }
    }

    #[test]
    fn version_1_counts_without_inactive_files() {
        let read = v1(files(&[
            ("cpuacct.usage", "12345\n"),
            ("memory.usage_in_bytes", "1000\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.memsw.usage_in_bytes", "1100\n"),
            ("memory.stat", "rss 1\ntotal_rss 700\ntotal_inactive_file 200\ntotal_pgfault 5\n"),
            ("pids.current", "3\n"),
        ]));
        let memory = read.memory.unwrap();
        assert_eq!((read.cpu_nanoseconds, read.processes), (Some(12345), Some(3)));
        assert_eq!((memory.working_set, memory.rss, memory.page_faults), (800, 700, 5));
        assert_eq!((memory.limit, memory.swap_usage, memory.swap_limit), (None, Some(100), None));
    }

    #[test]
    fn version_2_has_no_limit_for_max() {
        let read = v2(files(&[
            ("cpu.stat", "usage_usec 7\nuser_usec 1\n"),
            ("memory.current", "1000\n"),
            ("memory.max", "max\n"),
            ("memory.stat", "anon 600\ninactive_file 2000\n"),
            ("io.pressure", "some avg10=1.00 avg60=0.00 avg300=0.00 total=3\n"),
        ]));
        let memory = read.memory.unwrap();
        assert_eq!(read.cpu_nanoseconds, Some(7000));
        assert_eq!((memory.working_set, memory.rss, memory.limit), (0, 600, None));
        let waited = read.io_pressure.and_then(|pressure| pressure.some).map(|some| some.total_nanoseconds);
        assert_eq!((waited, read.cpu_pressure), (Some(3000), None));
    }

    #[test]
    fn missing_files_give_no_numbers() {
        assert_eq!(v1(files(&[])), CgroupStatistics::default());
        assert_eq!(v2(files(&[])), CgroupStatistics::default());
    }
}
