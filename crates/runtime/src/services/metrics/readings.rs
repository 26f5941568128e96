//! Values of the metrics of a container, from the files of its cgroup and its processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Ticks per second of CPU times in cgroup v1. The kernel shows this number to every program.
const TICKS: u64 = 100;
const NANOSECONDS: u64 = 1_000_000_000;
const MICROSECONDS: u64 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) family: &'static str,
    /// Values of the family's own labels.
    pub(super) labels: Vec<String>,
    pub(super) value: u64,
}

pub(super) fn sample(family: &'static str, value: u64) -> Sample {
    Sample { family, labels: Vec::new(), value }
}

fn labelled(family: &'static str, labels: &[&str], value: u64) -> Sample {
    Sample { family, labels: labels.iter().map(ToString::to_string).collect(), value }
}

/// Reads a file of a controller.
pub(super) type ReadFile<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

/// Adds `family` with the value of `field` in `text`, divided by `unit`.
fn add(samples: &mut Vec<Sample>, family: &'static str, text: &str, field: &str, unit: u64) {
    if let Some(value) = find(text, field) {
        samples.push(sample(family, value / unit));
    }
}

fn find(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(' ')?.trim().parse().ok())
}

fn number(read: ReadFile<'_>, controller: &str, file: &str) -> Option<u64> {
    read(controller, file)?.trim().parse().ok()
}

fn add_file(samples: &mut Vec<Sample>, family: &'static str, value: Option<u64>) {
    samples.extend(value.map(|value| sample(family, value)));
}

pub(super) fn of_version_1(read: ReadFile<'_>) -> Vec<Sample> {
    let mut samples = Vec::new();
    let times = read("cpuacct", "cpuacct.stat").unwrap_or_default();
    add(&mut samples, "container_cpu_user_seconds_total", &times, "user", TICKS);
    add(&mut samples, "container_cpu_system_seconds_total", &times, "system", TICKS);
    let usage = number(read, "cpuacct", "cpuacct.usage").map(|usage| usage / NANOSECONDS);
    add_file(&mut samples, "container_cpu_usage_seconds_total", usage);
    let cpu = read("cpu", "cpu.stat").unwrap_or_default();
    throttling(&mut samples, &cpu, "throttled_time", NANOSECONDS);
    let memory = read("memory", "memory.stat").unwrap_or_default();
    for (family, field) in [
        ("container_memory_cache", "total_cache"),
        ("container_memory_rss", "total_rss"),
        ("container_memory_mapped_file", "total_mapped_file"),
        ("container_memory_swap", "total_swap"),
        ("container_memory_total_active_file_bytes", "total_active_file"),
        ("container_memory_total_inactive_file_bytes", "total_inactive_file"),
    ] {
        add(&mut samples, family, &memory, field, 1);
    }
    for fault in ["pgfault", "pgmajfault"] {
        faults(&mut samples, &memory, fault, fault, "container");
        faults(&mut samples, &memory, fault, &format!("total_{fault}"), "hierarchy");
    }
    for (family, file) in [
        ("container_memory_kernel_usage", "memory.kmem.usage_in_bytes"),
        ("container_memory_failcnt", "memory.failcnt"),
        ("container_memory_usage_bytes", "memory.usage_in_bytes"),
        ("container_memory_max_usage_bytes", "memory.max_usage_in_bytes"),
    ] {
        add_file(&mut samples, family, number(read, "memory", file));
    }
    let killed = read("memory", "memory.oom_control").unwrap_or_default();
    add(&mut samples, "container_oom_events_total", &killed, "oom_kill", 1);
    let bytes = read("blkio", "blkio.throttle.io_service_bytes").unwrap_or_default();
    let operations = read("blkio", "blkio.throttle.io_serviced").unwrap_or_default();
    for (text, reads, writes) in [
        (&bytes, "container_fs_reads_bytes_total", "container_fs_writes_bytes_total"),
        (&operations, "container_fs_reads_total", "container_fs_writes_total"),
    ] {
        for (device, operation, value) in v1_devices(text) {
            match operation {
                "Read" => samples.push(labelled(reads, &[&device_name(device)], value)),
                "Write" => samples.push(labelled(writes, &[&device_name(device)], value)),
                _ => {}
            }
        }
    }
    for (device, operation, value) in v1_devices(&bytes) {
        device_usage(&mut samples, device, operation, value);
    }
    threads(&mut samples, read);
    samples
}

pub(super) fn of_version_2(read: ReadFile<'_>) -> Vec<Sample> {
    let mut samples = Vec::new();
    let cpu = read("cpu", "cpu.stat").unwrap_or_default();
    add(&mut samples, "container_cpu_user_seconds_total", &cpu, "user_usec", MICROSECONDS);
    add(&mut samples, "container_cpu_system_seconds_total", &cpu, "system_usec", MICROSECONDS);
    add(&mut samples, "container_cpu_usage_seconds_total", &cpu, "usage_usec", MICROSECONDS);
    throttling(&mut samples, &cpu, "throttled_usec", MICROSECONDS);
    let memory = read("memory", "memory.stat").unwrap_or_default();
    for (family, field) in [
        ("container_memory_cache", "file"),
        ("container_memory_rss", "anon"),
        ("container_memory_kernel_usage", "kernel"),
        ("container_memory_mapped_file", "file_mapped"),
        ("container_memory_total_active_file_bytes", "active_file"),
        ("container_memory_total_inactive_file_bytes", "inactive_file"),
    ] {
        add(&mut samples, family, &memory, field, 1);
    }
    for fault in ["pgfault", "pgmajfault"] {
        for scope in ["container", "hierarchy"] {
            faults(&mut samples, &memory, fault, fault, scope);
        }
    }
    for (family, file) in [
        ("container_memory_swap", "memory.swap.current"),
        ("container_memory_usage_bytes", "memory.current"),
        ("container_memory_max_usage_bytes", "memory.peak"),
    ] {
        add_file(&mut samples, family, number(read, "memory", file));
    }
    let events = read("memory", "memory.events").unwrap_or_default();
    add(&mut samples, "container_memory_failcnt", &events, "max", 1);
    add(&mut samples, "container_oom_events_total", &events, "oom_kill", 1);
    for line in read("io", "io.stat").unwrap_or_default().lines() {
        let Some((device, fields)) = line.split_once(' ') else { continue };
        let fields: BTreeMap<&str, &str> =
            fields.split(' ').filter_map(|field| field.split_once('=')).collect();
        let value = |field: &str| fields.get(field)?.parse::<u64>().ok();
        for (family, field) in [
            ("container_fs_reads_total", "rios"),
            ("container_fs_reads_bytes_total", "rbytes"),
            ("container_fs_writes_total", "wios"),
            ("container_fs_writes_bytes_total", "wbytes"),
        ] {
            samples.extend(value(field).map(|value| labelled(family, &[&device_name(device)], value)));
        }
        for (operation, field) in [("Read", "rbytes"), ("Write", "wbytes")] {
            if let Some(value) = value(field) {
                device_usage(&mut samples, device, operation, value);
            }
        }
    }
    threads(&mut samples, read);
    samples
}

fn throttling(samples: &mut Vec<Sample>, cpu: &str, field: &str, unit: u64) {
    add(samples, "container_cpu_cfs_periods_total", cpu, "nr_periods", 1);
    add(samples, "container_cpu_cfs_throttled_periods_total", cpu, "nr_throttled", 1);
    add(samples, "container_cpu_cfs_throttled_seconds_total", cpu, field, unit);
}

fn faults(samples: &mut Vec<Sample>, memory: &str, fault: &str, field: &str, scope: &str) {
    if let Some(value) = find(memory, field) {
        samples.push(labelled("container_memory_failures_total", &[fault, scope], value));
    }
}

fn threads(samples: &mut Vec<Sample>, read: ReadFile<'_>) {
    add_file(samples, "container_threads", number(read, "pids", "pids.current"));
    if let Some(limit) = read("pids", "pids.max") {
        // The text `max` is no number.
        samples.push(sample("container_threads_max", limit.trim().parse().unwrap_or(0)));
    }
}

/// Lines such as `8:0 Read 4096`.
fn v1_devices(text: &str) -> impl Iterator<Item = (&str, &str, u64)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?, words.next()?.parse().ok()?))
    })
}

fn device_usage(samples: &mut Vec<Sample>, device: &str, operation: &str, value: u64) {
    let Some((major, minor)) = device.split_once(':') else { return };
    let labels = [&device_name(device), major, minor, operation];
    samples.push(labelled("container_blkio_device_usage_total", &labels, value));
}

/// `/dev/sda` for `8:0`; empty if the device was removed.
fn device_name(numbers: &str) -> String {
    let link = fs::read_link(Path::new("/sys/dev/block").join(numbers)).unwrap_or_default();
    link.file_name().map_or_else(String::new, |name| format!("/dev/{}", name.to_string_lossy()))
}

/// Processes, descriptors and limits. Processes that end meanwhile are not counted.
pub(super) fn of_processes(pids: &[u32], first: u32) -> Vec<Sample> {
    let (mut descriptors, mut sockets) = (0, 0);
    for pid in pids {
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            descriptors += 1;
            let target = fs::read_link(entry.path()).unwrap_or_default();
            sockets += u64::from(target.to_string_lossy().starts_with("socket:"));
        }
    }
    let mut samples = vec![
        sample("container_processes", pids.len() as u64),
        sample("container_file_descriptors", descriptors),
        sample("container_sockets", sockets),
    ];
    let limits = fs::read_to_string(format!("/proc/{first}/limits")).unwrap_or_default();
    let open_files =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    if let Some(limit) = open_files.and_then(|limit| limit.parse().ok()) {
        samples.push(labelled("container_ulimits_soft", &["max_open_files"], limit));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(samples: &[Sample], family: &str, labels: &[&str], expected: u64) {
        let found = samples.iter().find(|sample| sample.family == family && sample.labels == labels);
        assert_eq!(found.map(|sample| sample.value), Some(expected), "{family} {labels:?} in {samples:?}");
    }

    #[test]
    fn version_1_counts_ticks_and_operations() {
        let samples = of_version_1(&|_, file| {
            let text = match file {
                "cpuacct.stat" => "user 250\nsystem 100\n",
                "cpuacct.usage" => "3500000000\n",
                "memory.stat" => "pgfault 1\ntotal_pgfault 2\ntotal_rss 4096\n",
                "memory.oom_control" => "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
                "blkio.throttle.io_service_bytes" => {
                    "999:7 Read 10\n999:7 Write 20\n999:7 Total 30\nTotal 30\n"
                }
                "pids.max" => "max\n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        check(&samples, "container_cpu_user_seconds_total", &[], 2);
        check(&samples, "container_cpu_usage_seconds_total", &[], 3);
        check(&samples, "container_memory_failures_total", &["pgfault", "container"], 1);
        check(&samples, "container_memory_failures_total", &["pgfault", "hierarchy"], 2);
        check(&samples, "container_oom_events_total", &[], 3);
        check(&samples, "container_fs_writes_bytes_total", &[""], 20);
        check(&samples, "container_blkio_device_usage_total", &["", "999", "7", "Read"], 10);
        check(&samples, "container_threads_max", &[], 0);
    }

    #[test]
    fn version_2_counts_microseconds_and_fields() {
        let samples = of_version_2(&|_, file| {
            let text = match file {
                "cpu.stat" => "usage_usec 2500000\nnr_throttled 4\nthrottled_usec 1000000\n",
                "memory.stat" => "anon 100\nfile 50\npgmajfault 6\n",
                "memory.events" => "low 0\nmax 8\noom 1\noom_kill 2\n",
                "io.stat" => "999:7 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        check(&samples, "container_cpu_usage_seconds_total", &[], 2);
        check(&samples, "container_cpu_cfs_throttled_seconds_total", &[], 1);
        check(&samples, "container_memory_cache", &[], 50);
        check(&samples, "container_memory_failcnt", &[], 8);
        check(&samples, "container_oom_events_total", &[], 2);
        check(&samples, "container_fs_writes_total", &[""], 2);
        check(&samples, "container_blkio_device_usage_total", &["", "999", "7", "Write"], 20);
    }
}
