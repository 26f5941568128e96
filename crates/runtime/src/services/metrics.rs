//! Metrics of pods and containers in the form of cAdvisor, for node agents that take them from the runtime.

mod families;
mod readings;

use std::sync::Arc;

use cri::v1::{ContainerMetrics, Metric, MetricDescriptor, PodSandboxMetrics, UInt64Value};
use rustix::fs::statvfs;

use self::families::FAMILIES;
use self::readings::{Sample, sample};
use crate::cgroups::{CgroupLayout, ContainerCgroup};
use crate::containers::Container;
use crate::errors::ServiceError;
use crate::records::LifeState;
use crate::sandboxes::Sandbox;
use crate::shared::{Shared, blocking};

const NANOSECONDS: u64 = 1_000_000_000;

pub(super) fn descriptors() -> Vec<MetricDescriptor> {
    families::descriptors()
}

/// The metrics of a sandbox and its running containers. What cannot be read is left out.
pub(super) async fn of_sandbox(
    shared: &Arc<Shared>,
    sandbox: &Arc<Sandbox>,
) -> Result<PodSandboxMetrics, ServiceError> {
    let (shared, sandbox) = (shared.clone(), sandbox.clone());
    blocking(move || Ok(read_sandbox(&shared, &sandbox))).await
}

fn read_sandbox(shared: &Shared, sandbox: &Sandbox) -> PodSandboxMetrics {
    let record = &sandbox.record;
    let cgroup = record.cgroup.parent().map_or_else(String::new, |parent| parent.display().to_string());
    let labels = object_labels(sandbox, "", &cgroup, "");
    let now = shared.now();
    let metrics = |samples: Vec<Sample>, labels: &[String]| {
        samples.into_iter().filter_map(|sample| metric(sample, labels, now)).collect()
    };
    let containers = shared.containers_of(&record.id);
    let container_metrics = containers.iter().filter_map(|container| {
        let samples = read_container(shared, container)?;
        let config = &container.record.config;
        let name = config.metadata.as_ref().map(|metadata| metadata.name.as_str()).unwrap_or_default();
        let cgroup = container.record.cgroup.display().to_string();
        let labels = object_labels(sandbox, name, &cgroup, &container.record.image_name);
        let container_id = container.record.id.clone();
        Some(ContainerMetrics { container_id, metrics: metrics(samples, &labels) })
    });
    PodSandboxMetrics {
        pod_sandbox_id: record.id.clone(),
        metrics: metrics(network(sandbox), &labels),
        container_metrics: container_metrics.collect(),
    }
}

/// In the order of [`families::OBJECT_LABELS`].
fn object_labels(sandbox: &Sandbox, container: &str, cgroup: &str, image: &str) -> Vec<String> {
    let pod = sandbox.record.config.metadata.clone().unwrap_or_default();
    vec![pod.name, pod.namespace, container.to_owned(), format!("/{cgroup}"), image.to_owned()]
}

fn metric(sample: Sample, labels: &[String], timestamp: i64) -> Option<Metric> {
    let family = FAMILIES.iter().find(|family| family.name == sample.family)?;
    Some(Metric {
        name: sample.family.to_owned(),
        timestamp,
        metric_type: family.kind.into(),
        label_values: labels.iter().cloned().chain(sample.labels).collect(),
        value: Some(UInt64Value { value: sample.value }),
    })
}

fn network(sandbox: &Sandbox) -> Vec<Sample> {
    let mut samples = Vec::new();
    for interface in sandbox.interface_counters() {
        let (received, sent) = (interface.received, interface.sent);
        for (family, value) in [
            ("container_network_receive_bytes_total", received.bytes),
            ("container_network_receive_packets_total", received.packets),
            ("container_network_receive_packets_dropped_total", received.dropped),
            ("container_network_receive_errors_total", received.errors),
            ("container_network_transmit_bytes_total", sent.bytes),
            ("container_network_transmit_packets_total", sent.packets),
            ("container_network_transmit_packets_dropped_total", sent.dropped),
            ("container_network_transmit_errors_total", sent.errors),
        ] {
            samples.push(Sample { labels: vec![interface.name.clone()], ..sample(family, value) });
        }
    }
    samples
}

/// None if the container does not run.
fn read_container(shared: &Shared, container: &Container) -> Option<Vec<Sample>> {
    let record = &container.record;
    let LifeState::Running { pid, started_at } = container.life() else { return None };
    let cgroup = ContainerCgroup::at(&shared.cgroups, &record.cgroup);
    let read = |controller: &str, file: &str| cgroup.read(controller, file);
    let mut samples = match &shared.cgroups {
        CgroupLayout::V1 { .. } => readings::of_version_1(&read),
        CgroupLayout::V2 { .. } => readings::of_version_2(&read),
    };
    let working_set = cgroup.statistics().memory.map(|memory| memory.working_set);
    samples.extend(working_set.map(|value| sample("container_memory_working_set_bytes", value)));
    let pids = read("memory", "cgroup.procs").unwrap_or_default();
    let pids: Vec<u32> = pids.lines().filter_map(|line| line.parse().ok()).collect();
    samples.extend(readings::of_processes(&pids, pid));
    samples.extend(writable_layer(shared, &record.id));
    let seconds = |time: i64| u64::try_from(time).unwrap_or(0) / NANOSECONDS;
    samples.push(sample("container_last_seen", seconds(shared.now())));
    samples.push(sample("container_start_time_seconds", seconds(started_at)));
    let limits = container.resources();
    let positive = |value: i64| u64::try_from(value).unwrap_or(0);
    for (family, value) in [
        ("container_spec_cpu_period", limits.cpu_period),
        ("container_spec_cpu_shares", limits.cpu_shares),
        ("container_spec_memory_limit_bytes", limits.memory_limit_in_bytes),
        ("container_spec_memory_reservation_limit_bytes", 0),
        ("container_spec_memory_swap_limit_bytes", limits.memory_swap_limit_in_bytes),
    ] {
        samples.push(sample(family, positive(value)));
    }
    Some(samples)
}

fn writable_layer(shared: &Shared, container: &str) -> Vec<Sample> {
    let Ok(usage) = shared.store.writable_usage(container) else { return Vec::new() };
    let Ok(filesystem) = statvfs(shared.store.folder()) else { return Vec::new() };
    let values = [
        ("container_fs_usage_bytes", usage.bytes),
        ("container_fs_limit_bytes", filesystem.f_blocks * filesystem.f_frsize),
        ("container_fs_inodes_free", filesystem.f_ffree),
        ("container_fs_inodes_total", filesystem.f_files),
    ];
    let device = shared.store.folder().display().to_string();
    values.map(|(family, value)| Sample { labels: vec![device.clone()], ..sample(family, value) }).into()
}
