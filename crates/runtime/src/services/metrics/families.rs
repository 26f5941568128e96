//! The families of metrics: names, labels and kinds are those of cAdvisor, so that an agent can give either.

use cri::v1::{MetricDescriptor, MetricType};

/// Labels of every metric, before its own ones.
pub(super) const OBJECT_LABELS: [&str; 5] = ["pod", "namespace", "container", "id", "image"];

pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    labels: &'static [&'static str],
    help: &'static str,
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind: MetricType::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind: MetricType::Gauge, labels, help }
}

const DEVICE: &[&str] = &["device"];
const INTERFACE: &[&str] = &["interface"];

pub(super) const FAMILIES: &[Family] = &[
    counter("container_cpu_user_seconds_total", &[], "CPU time in user mode, in seconds"),
    counter("container_cpu_system_seconds_total", &[], "CPU time in kernel mode, in seconds"),
    counter("container_cpu_usage_seconds_total", &[], "CPU time, in seconds"),
    counter("container_cpu_cfs_periods_total", &[], "Number of elapsed enforcement periods"),
    counter("container_cpu_cfs_throttled_periods_total", &[], "Number of throttled enforcement periods"),
    counter("container_cpu_cfs_throttled_seconds_total", &[], "Duration of throttling, in seconds"),
    gauge("container_memory_cache", &[], "Bytes of the page cache"),
    gauge("container_memory_rss", &[], "Bytes of anonymous memory"),
    gauge("container_memory_kernel_usage", &[], "Bytes of kernel memory"),
    gauge("container_memory_mapped_file", &[], "Bytes of mapped files"),
    gauge("container_memory_swap", &[], "Bytes of swap"),
    counter("container_memory_failcnt", &[], "Number of hits of the memory limit"),
    gauge("container_memory_usage_bytes", &[], "Bytes of memory, with the page cache"),
    gauge("container_memory_max_usage_bytes", &[], "Highest usage of memory in bytes"),
    gauge(
        "container_memory_working_set_bytes",
        &[],
        "Bytes of memory that the kernel cannot take back at once",
    ),
    gauge("container_memory_total_active_file_bytes", &[], "Bytes of active files in the page cache"),
    gauge("container_memory_total_inactive_file_bytes", &[], "Bytes of inactive files in the page cache"),
    counter("container_memory_failures_total", &["failure_type", "scope"], "Number of page faults"),
    counter("container_oom_events_total", &[], "Number of processes that were killed for lack of memory"),
    counter("container_network_receive_bytes_total", INTERFACE, "Received bytes"),
    counter("container_network_receive_packets_total", INTERFACE, "Received packets"),
    counter("container_network_receive_packets_dropped_total", INTERFACE, "Packets dropped while receiving"),
    counter("container_network_receive_errors_total", INTERFACE, "Errors while receiving"),
    counter("container_network_transmit_bytes_total", INTERFACE, "Sent bytes"),
    counter("container_network_transmit_packets_total", INTERFACE, "Sent packets"),
    counter("container_network_transmit_packets_dropped_total", INTERFACE, "Packets dropped while sending"),
    counter("container_network_transmit_errors_total", INTERFACE, "Errors while sending"),
    gauge("container_fs_inodes_free", DEVICE, "Free inodes of the file system"),
    gauge("container_fs_inodes_total", DEVICE, "Inodes of the file system"),
    gauge("container_fs_limit_bytes", DEVICE, "Size of the file system in bytes"),
    gauge("container_fs_usage_bytes", DEVICE, "Bytes of the writable layer"),
    counter("container_fs_reads_total", DEVICE, "Number of reads"),
    counter("container_fs_reads_bytes_total", DEVICE, "Read bytes"),
    counter("container_fs_writes_total", DEVICE, "Number of writes"),
    counter("container_fs_writes_bytes_total", DEVICE, "Written bytes"),
    counter(
        "container_blkio_device_usage_total",
        &["device", "major", "minor", "operation"],
        "Bytes of block devices by operation",
    ),
    gauge("container_processes", &[], "Number of processes"),
    gauge("container_threads", &[], "Number of threads"),
    gauge("container_threads_max", &[], "Highest allowed number of threads, 0 for no limit"),
    gauge("container_file_descriptors", &[], "Number of open file descriptors"),
    gauge("container_sockets", &[], "Number of open sockets"),
    gauge("container_ulimits_soft", &["ulimit"], "Soft limits of the first process, -1 for none"),
    gauge("container_last_seen", &[], "Time of this reading, in seconds since 1970"),
    gauge("container_start_time_seconds", &[], "Time of the start, in seconds since 1970"),
    gauge("container_spec_cpu_period", &[], "CPU period in microseconds"),
    gauge("container_spec_cpu_shares", &[], "CPU shares"),
    gauge("container_spec_memory_limit_bytes", &[], "Memory limit in bytes, 0 for none"),
    gauge("container_spec_memory_reservation_limit_bytes", &[], "Memory reservation in bytes, 0 for none"),
    gauge("container_spec_memory_swap_limit_bytes", &[], "Limit of memory and swap in bytes, 0 for none"),
];

pub(super) fn descriptors() -> Vec<MetricDescriptor> {
    let descriptor = |family: &Family| MetricDescriptor {
        name: family.name.to_owned(),
        help: family.help.to_owned(),
        label_keys: OBJECT_LABELS.iter().chain(family.labels).map(ToString::to_string).collect(),
    };
    FAMILIES.iter().map(descriptor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_described_once() {
        let descriptors = descriptors();
        let names: std::collections::BTreeSet<&str> =
            descriptors.iter().map(|descriptor| descriptor.name.as_str()).collect();
        assert_eq!(names.len(), FAMILIES.len());
        let faults =
            descriptors.iter().find(|found| found.name == "container_memory_failures_total").unwrap();
        let keys = ["pod", "namespace", "container", "id", "image", "failure_type", "scope"];
        assert_eq!(faults.label_keys, keys);
    }
}
