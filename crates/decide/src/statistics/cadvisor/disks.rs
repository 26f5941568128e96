//! Disks of the machine, and I/O of cgroups.

use model::metric_family::{MetricFamily, MetricKind, MetricSeries};
use model::usage::{DeviceUsage, MountedDisk};

use super::{Names, Row};
use crate::statistics::families::{count, counter, timed};
use crate::statistics::readings::Reading;

type OfMachine = (&'static str, &'static str, MetricKind, fn(&MountedDisk) -> f64);

use MetricKind::{Counter, Gauge};

const OF_MACHINE: [OfMachine; 13] = [
    ("container_fs_usage_bytes", "Used bytes of the filesystem", Gauge, |disk| count(disk.room.used)),
    ("container_fs_limit_bytes", "Size of the filesystem", Gauge, |disk| count(disk.room.capacity)),
    ("container_fs_inodes_free", "Free inodes of the filesystem", Gauge, |disk| count(disk.room.inodes_free)),
    ("container_fs_inodes_total", "Inodes of the filesystem", Gauge, |disk| count(disk.room.inodes)),
    ("container_fs_reads_merged_total", "Merged read requests", Counter, |disk| {
        count(disk.activity.reads_merged)
    }),
    ("container_fs_sector_reads_total", "Sectors read", Counter, |disk| count(disk.activity.sectors_read)),
    ("container_fs_read_seconds_total", "Time spent reading", Counter, |disk| {
        time(disk.activity.read_millis)
    }),
    ("container_fs_writes_merged_total", "Merged write requests", Counter, |disk| {
        count(disk.activity.writes_merged)
    }),
    ("container_fs_sector_writes_total", "Sectors written", Counter, |disk| {
        count(disk.activity.sectors_written)
    }),
    ("container_fs_write_seconds_total", "Time spent writing", Counter, |disk| {
        time(disk.activity.write_millis)
    }),
    ("container_fs_io_current", "I/O requests in flight", Gauge, |disk| count(disk.activity.in_progress)),
    ("container_fs_io_time_seconds_total", "Time with I/O requests in flight", Counter, |disk| {
        time(disk.activity.io_millis)
    }),
    (
        "container_fs_io_time_weighted_seconds_total",
        "Sum of the durations of all I/O requests",
        Counter,
        |disk| time(disk.activity.weighted_io_millis),
    ),
];

pub(super) fn families(rows: &[Row<'_>], root: Option<&Reading>, disks: &[MountedDisk]) -> Vec<MetricFamily> {
    let names = Names { id: "/".to_owned(), ..Names::default() };
    let of_machine = |value: fn(&MountedDisk) -> f64| -> Vec<MetricSeries> {
        let series = |disk: &MountedDisk, root: &Reading| {
            timed(names.with(&[("device", &disk.device)]), value(disk), root.usage.time)
        };
        root.into_iter().flat_map(|root| disks.iter().map(move |disk| series(disk, root))).collect()
    };
    let mut families: Vec<MetricFamily> = OF_MACHINE
        .into_iter()
        .map(|(name, help, kind, value)| MetricFamily { name, help, kind, series: of_machine(value) })
        .collect();
    let both = |machine: fn(&MountedDisk) -> f64, cgroup: fn(&DeviceUsage) -> u64| {
        let mut series = of_machine(machine);
        series.extend(of_cgroups(rows, cgroup).into_iter().filter(|one| !is_root(one)));
        series
    };
    families.push(counter(
        "container_fs_reads_total",
        "Completed read requests",
        both(|disk| count(disk.activity.reads), |device| device.reads),
    ));
    families.push(counter(
        "container_fs_writes_total",
        "Completed write requests",
        both(|disk| count(disk.activity.writes), |device| device.writes),
    ));
    families.push(counter(
        "container_fs_reads_bytes_total",
        "Bytes read",
        of_cgroups(rows, |device| device.read_bytes),
    ));
    families.push(counter(
        "container_fs_writes_bytes_total",
        "Bytes written",
        of_cgroups(rows, |device| device.written_bytes),
    ));
    families.push(device_usage(rows));
    families
}

/// The root cgroup uses the counters of the machine.
fn is_root(series: &MetricSeries) -> bool {
    series.labels.iter().any(|(name, value)| *name == "id" && value == "/")
}

fn of_cgroups(rows: &[Row<'_>], value: fn(&DeviceUsage) -> u64) -> Vec<MetricSeries> {
    let devices = rows.iter().flat_map(|row| {
        let devices = row.reading.usage.full.iter().flat_map(|full| &full.io);
        devices.map(move |device| (row, device))
    });
    let series = devices.map(|(row, device)| {
        let labels = row.names.with(&[("device", &device.device)]);
        timed(labels, count(value(device)), row.reading.usage.time)
    });
    series.collect()
}

fn device_usage(rows: &[Row<'_>]) -> MetricFamily {
    let series = rows.iter().flat_map(|row| {
        let devices = row.reading.usage.full.iter().flat_map(|full| &full.io);
        devices.flat_map(move |device| {
            let (major, minor) = (device.major.to_string(), device.minor.to_string());
            [("Read", device.read_bytes), ("Write", device.written_bytes)].map(|(operation, value)| {
                let labels = row.names.with(&[
                    ("device", &device.device),
                    ("major", &major),
                    ("minor", &minor),
                    ("operation", operation),
                ]);
                timed(labels, count(value), row.reading.usage.time)
            })
        })
    });
    counter("container_blkio_device_usage_total", "Bytes by device", series)
}

/// Bug-compatible: upstream treats the kernel's milliseconds as nanoseconds, and dashboards expect its values.
fn time(millis: u64) -> f64 {
    count(millis) / 1e9
}
