//! `/metrics/resource`, which metrics-server reads.

use model::metric_family::{MetricFamily, MetricSeries};

use super::families::{Labels, count, counter, gauge, in_order, plain, seconds, since_epoch, timed};
use super::readings::{PodReading, Reading, RunningContainer};
use super::summary::NodeReading;

/// The scrape counts as failed when the machine itself could not be read.
pub fn resource_families(node: &NodeReading, pods: &[PodReading]) -> Vec<MetricFamily> {
    let root = node.root.as_ref();
    let failed = if root.is_some() { 0.0 } else { 1.0 };
    let of_node = |value: fn(&Reading) -> f64| root.map(|reading| series(Vec::new(), reading, value));
    let of_pods = |value: fn(&Reading) -> f64| {
        let pods = pods.iter().filter(|pod| pod.pod.has_containers());
        pods.filter_map(move |pod| Some(series(pod_labels(pod), pod.cgroup.as_ref()?, value)))
    };
    let of_containers = |value: fn(&Reading) -> Option<f64>| {
        containers(pods).filter_map(move |(pod, container, reading)| {
            let reading = reading?;
            Some(timed(container_labels(pod, container), value(reading)?, reading.usage.time))
        })
    };
    let starts = containers(pods).map(|(pod, container, _)| {
        plain(container_labels(pod, container), since_epoch(container.created_at))
    });
    in_order(vec![
        counter("node_cpu_usage_seconds_total", "[STABLE] CPU time the node has used", of_node(cpu)),
        gauge("node_memory_working_set_bytes", "[STABLE] Working set of the node", of_node(working_set)),
        gauge("node_swap_usage_bytes", "[ALPHA] Swap the node uses", of_node(swap)),
        counter("pod_cpu_usage_seconds_total", "[STABLE] CPU time a pod has used", of_pods(cpu)),
        gauge("pod_memory_working_set_bytes", "[STABLE] Working set of a pod", of_pods(working_set)),
        gauge("pod_swap_usage_bytes", "[ALPHA] Swap a pod uses", of_pods(swap)),
        counter(
            "container_cpu_usage_seconds_total",
            "[STABLE] CPU time a container has used",
            of_containers(|reading| Some(cpu(reading))),
        ),
        gauge(
            "container_memory_working_set_bytes",
            "[STABLE] Working set of a container",
            of_containers(|reading| Some(working_set(reading))),
        ),
        gauge(
            "container_swap_usage_bytes",
            "[ALPHA] Swap a container uses",
            of_containers(|reading| Some(swap(reading))),
        ),
        gauge(
            "container_swap_limit_bytes",
            "[ALPHA] Swap a container may use",
            of_containers(|reading| reading.usage.memory.swap_limit.map(count)),
        ),
        gauge("container_start_time_seconds", "[STABLE] Creation time of a container", starts),
        gauge("resource_scrape_error", "[STABLE] 1 if reading the node failed", [plain(Vec::new(), failed)]),
    ])
}

/// Every container with its pod and reading.
fn containers(
    pods: &[PodReading],
) -> impl Iterator<Item = (&PodReading, &RunningContainer, Option<&Reading>)> {
    pods.iter().flat_map(|pod| {
        let pairs = pod.pod.containers.iter().zip(&pod.containers);
        pairs.map(move |(container, reading)| (pod, container, reading.as_ref()))
    })
}

fn series(labels: Labels, reading: &Reading, value: fn(&Reading) -> f64) -> MetricSeries {
    timed(labels, value(reading), reading.usage.time)
}

fn cpu(reading: &Reading) -> f64 {
    seconds(reading.usage.cpu.total)
}

fn working_set(reading: &Reading) -> f64 {
    count(reading.usage.memory.working_set)
}

fn swap(reading: &Reading) -> f64 {
    count(reading.usage.memory.swap)
}

fn pod_labels(pod: &PodReading) -> Labels {
    let name = &pod.pod.full_name;
    vec![("namespace", name.namespace.clone()), ("pod", name.name.clone())]
}

fn container_labels(pod: &PodReading, container: &RunningContainer) -> Labels {
    let name = &pod.pod.full_name;
    vec![
        ("container", container.name.clone()),
        ("namespace", name.namespace.clone()),
        ("pod", name.name.clone()),
    ]
}
