//! CPU, memory, limits, processes and pressure of cgroups.

use model::Timestamp;
use model::metric_family::{MetricFamily, MetricKind};
use model::usage::{FullUsage, MemoryUsage, PressureUsage};

use super::Row;
use crate::statistics::families::{count, counter, gauge, plain, seconds, timed};

/// Task states, for which upstream always shows zero.
const TASK_STATES: [&str; 5] = ["iowaiting", "running", "sleeping", "stopped", "uninterruptible"];

/// A family with one series per cgroup.
type Simple = (&'static str, &'static str, MetricKind, fn(&Row<'_>, &FullUsage) -> Option<f64>);

use MetricKind::{Counter, Gauge};

const TIMED: [Simple; 27] = [
    ("container_cpu_user_seconds_total", "CPU time in user mode", Counter, |_, full| {
        Some(seconds(full.cpu_user))
    }),
    ("container_cpu_system_seconds_total", "CPU time in the kernel", Counter, |_, full| {
        Some(seconds(full.cpu_system))
    }),
    ("container_cpu_cfs_periods_total", "Periods with a CPU limit in force", Counter, |_, full| {
        limited(full, full.cpu_limit.periods)
    }),
    (
        "container_cpu_cfs_throttled_periods_total",
        "Periods in which the CPU limit throttled the cgroup",
        Counter,
        |_, full| limited(full, full.cpu_limit.throttled_periods),
    ),
    (
        "container_cpu_cfs_throttled_seconds_total",
        "Time for which the CPU limit throttled the cgroup",
        Counter,
        |_, full| full.cpu_quota.map(|_| seconds(full.cpu_limit.throttled)),
    ),
    (
        "container_cpu_cfs_burst_periods_total",
        "Periods in which the cgroup used burst time",
        Counter,
        |_, full| limited(full, full.cpu_limit.burst_periods),
    ),
    ("container_cpu_cfs_burst_seconds_total", "Used burst time", Counter, |_, full| {
        full.cpu_quota.map(|_| seconds(full.cpu_limit.burst))
    }),
    ("container_cpu_load_average_10s", "Not measured: 0", Gauge, |_, _| Some(0.0)),
    ("container_cpu_load_d_average_10s", "Not measured: 0", Gauge, |_, _| Some(0.0)),
    ("container_memory_usage_bytes", "Memory usage including the page cache", Gauge, |row, _| {
        memory(row, |memory| memory.usage)
    }),
    (
        "container_memory_working_set_bytes",
        "Memory usage without the inactive page cache",
        Gauge,
        |row, _| memory(row, |memory| memory.working_set),
    ),
    ("container_memory_rss", "Anonymous memory", Gauge, |row, _| memory(row, |memory| memory.rss)),
    ("container_memory_cache", "Page cache", Gauge, |row, _| memory(row, |memory| memory.cache)),
    ("container_memory_swap", "Swap in use", Gauge, |row, _| memory(row, |memory| memory.swap)),
    ("container_memory_mapped_file", "Mapped files", Gauge, |row, _| {
        memory(row, |memory| memory.mapped_file)
    }),
    ("container_memory_total_active_file_bytes", "Page cache on the active list", Gauge, |row, _| {
        memory(row, |memory| memory.active_file)
    }),
    ("container_memory_total_inactive_file_bytes", "Page cache on the inactive list", Gauge, |row, _| {
        memory(row, |memory| memory.inactive_file)
    }),
    ("container_memory_max_usage_bytes", "Highest memory usage so far", Gauge, |_, full| {
        Some(count(full.max_memory))
    }),
    ("container_memory_kernel_usage", "Kernel memory", Gauge, |_, full| Some(count(full.kernel_memory))),
    ("container_memory_failcnt", "How often usage reached the memory limit", Counter, |_, full| {
        Some(count(full.memory_failures))
    }),
    ("container_oom_events_total", "Processes that the OOM killer killed", Counter, |_, full| {
        Some(count(full.oom_kills))
    }),
    ("container_health_state", "Not measured: -1", Gauge, |_, _| Some(-1.0)),
    ("container_processes", "Processes", Gauge, |_, full| Some(count(full.processes.count))),
    ("container_file_descriptors", "Open files", Gauge, |_, full| Some(count(full.processes.open_files))),
    ("container_sockets", "Open sockets", Gauge, |_, full| Some(count(full.processes.sockets))),
    ("container_threads", "Threads", Gauge, |_, full| Some(count(full.threads))),
    ("container_threads_max", "Limit of threads; 0 without a limit", Gauge, |_, full| {
        Some(count(full.max_threads.unwrap_or_default()))
    }),
];

const PLAIN: [Simple; 7] = [
    ("container_spec_cpu_period", "Period of the CPU limit, in microseconds", Gauge, |_, full| {
        Some(count(full.cpu_period))
    }),
    ("container_spec_cpu_quota", "CPU time per period, in microseconds", Gauge, |_, full| {
        full.cpu_quota.map(count)
    }),
    ("container_spec_cpu_shares", "CPU shares", Gauge, |_, full| Some(count(full.cpu_shares))),
    ("container_spec_memory_limit_bytes", "Memory limit; 0 without a limit", Gauge, |row, _| {
        Some(count(row.memory_limit))
    }),
    (
        "container_spec_memory_reservation_limit_bytes",
        "Memory reservation, the soft limit",
        Gauge,
        |_, full| Some(count(full.memory_reservation.unwrap_or_default())),
    ),
    ("container_spec_memory_swap_limit_bytes", "Swap limit; 0 without a limit", Gauge, |row, _| {
        Some(count(row.swap_limit))
    }),
    ("container_start_time_seconds", "Creation time of the cgroup", Gauge, |row, _| {
        Some(whole_seconds(row.created_at))
    }),
];

/// Pressure: `waiting` is the share of some tasks, `stalled` of all tasks.
type Stalls = (&'static str, &'static str, fn(&PressureUsage) -> u64);

const PRESSURE: [Stalls; 6] = [
    ("container_pressure_cpu_waiting_seconds_total", "Time for which some task waited for a CPU", |found| {
        found.cpu.some.total
    }),
    ("container_pressure_cpu_stalled_seconds_total", "Time for which all tasks waited for a CPU", |found| {
        found.cpu.full.total
    }),
    (
        "container_pressure_memory_waiting_seconds_total",
        "Time for which some task waited for memory",
        |found| found.memory.some.total,
    ),
    (
        "container_pressure_memory_stalled_seconds_total",
        "Time for which all tasks waited for memory",
        |found| found.memory.full.total,
    ),
    ("container_pressure_io_waiting_seconds_total", "Time for which some task waited for I/O", |found| {
        found.io.some.total
    }),
    ("container_pressure_io_stalled_seconds_total", "Time for which all tasks waited for I/O", |found| {
        found.io.full.total
    }),
];

pub(super) fn families(rows: &[Row<'_>], now: Timestamp) -> Vec<MetricFamily> {
    let mut families = Vec::new();
    for (name, help, kind, value) in TIMED {
        let series = rows.iter().filter_map(|row| {
            let value = value(row, row.reading.usage.full.as_deref()?)?;
            Some(timed(row.names.with(&[]), value, row.reading.usage.time))
        });
        families.push(MetricFamily { name, help, kind, series: series.collect() });
    }
    for (name, help, kind, value) in PLAIN {
        let series = rows.iter().filter_map(|row| {
            Some(plain(row.names.with(&[]), value(row, row.reading.usage.full.as_deref()?)?))
        });
        families.push(MetricFamily { name, help, kind, series: series.collect() });
    }
    for (name, help, value) in PRESSURE {
        let series = rows.iter().filter_map(|row| {
            // Microseconds.
            let value = count(value(row.reading.usage.pressure.as_ref()?)) / 1e6;
            Some(timed(row.names.with(&[]), value, row.reading.usage.time))
        });
        families.push(counter(name, help, series));
    }
    families.extend(labelled(rows, now));
    families
}

/// Families with additional labels.
fn labelled(rows: &[Row<'_>], now: Timestamp) -> Vec<MetricFamily> {
    let cpu = rows.iter().map(|row| {
        let usage = &row.reading.usage;
        timed(row.names.with(&[("cpu", "total")]), seconds(usage.cpu.total), usage.time)
    });
    let seen = rows.iter().map(|row| timed(row.names.with(&[]), whole_seconds(now), now));
    let faults = rows.iter().flat_map(|row| {
        let usage = &row.reading.usage;
        // Upstream shows the same value for both scopes.
        [
            ("pgfault", "container", usage.memory.page_faults),
            ("pgfault", "hierarchy", usage.memory.page_faults),
            ("pgmajfault", "container", usage.memory.major_page_faults),
            ("pgmajfault", "hierarchy", usage.memory.major_page_faults),
        ]
        .map(|(kind, scope, value)| {
            timed(row.names.with(&[("failure_type", kind), ("scope", scope)]), count(value), usage.time)
        })
    });
    let tasks = rows.iter().flat_map(|row| {
        TASK_STATES.map(|state| timed(row.names.with(&[("state", state)]), 0.0, row.reading.usage.time))
    });
    let limits = rows.iter().filter_map(|row| {
        let limit = row.reading.usage.full.as_deref()?.processes.open_files_limit?;
        let labels = row.names.with(&[("ulimit", "max_open_files")]);
        Some(timed(labels, count(limit), row.reading.usage.time))
    });
    vec![
        counter("container_cpu_usage_seconds_total", "CPU time in user and kernel mode", cpu),
        gauge("container_last_seen", "Time of the last observation", seen),
        counter("container_memory_failures_total", "Page faults", faults),
        gauge("container_tasks_state", "Not measured: 0", tasks),
        gauge("container_ulimits_soft", "Soft resource limits of the first process", limits),
    ]
}

fn limited(full: &FullUsage, value: u64) -> Option<f64> {
    full.cpu_quota.map(|_| count(value))
}

#[expect(clippy::unnecessary_wraps, reason = "the table's functions may have nothing to tell")]
fn memory(row: &Row<'_>, value: fn(&MemoryUsage) -> u64) -> Option<f64> {
    Some(count(value(&row.reading.usage.memory)))
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating point numbers")]
fn whole_seconds(time: Timestamp) -> f64 {
    time.as_nanos().div_euclid(1_000_000_000) as f64
}
