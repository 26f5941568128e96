//! `/metrics/cadvisor`: all cgroups and the machine.

mod cgroups;
mod disks;
mod machine;
mod networks;

use std::collections::BTreeMap;

use model::metric_family::MetricFamily;
use model::usage::{CpuTopology, InterfaceUsage, MountedDisk};
use model::{MachineIdentity, SandboxId, Timestamp};

use super::families::{Labels, gauge, in_order, plain};
use super::readings::{PodReading, Reading};
use super::summary::NodeReading;

/// Additional readings for `/metrics/cadvisor`.
#[derive(Clone, Debug, Default)]
pub struct CadvisorReadings {
    pub now: Timestamp,
    /// Cgroups above the pods.
    pub classes: Vec<Reading>,
    /// Images of sandboxes, where known.
    pub sandbox_images: BTreeMap<SandboxId, String>,
    pub network: Vec<InterfaceUsage>,
    pub disks: Vec<MountedDisk>,
    pub topology: CpuTopology,
    pub identity: MachineIdentity,
}

/// A cgroup with its labels.
struct Row<'a> {
    names: Names,
    reading: &'a Reading,
    created_at: Timestamp,
    /// Memory limit; 0 for no limit.
    memory_limit: u64,
    /// Swap limit; 0 for no limit.
    swap_limit: u64,
    /// Set for sandboxes.
    network: &'a [InterfaceUsage],
}

/// Labels of every series of a cgroup.
#[derive(Clone, Default)]
struct Names {
    id: String,
    image: String,
    name: String,
    namespace: String,
    pod: String,
    container: String,
}

impl Names {
    /// Adds labels, sorted by name.
    fn with(&self, more: &[(&'static str, &str)]) -> Labels {
        let mut labels = vec![
            ("container", self.container.clone()),
            ("id", self.id.clone()),
            ("image", self.image.clone()),
            ("name", self.name.clone()),
            ("namespace", self.namespace.clone()),
            ("pod", self.pod.clone()),
        ];
        if !more.is_empty() {
            labels.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
            labels.sort_by_key(|(name, _)| *name);
        }
        labels
    }
}

pub fn cadvisor_families(
    node: &NodeReading,
    pods: &[PodReading],
    readings: &CadvisorReadings,
) -> Vec<MetricFamily> {
    let rows = rows(node, pods, readings);
    let mut families = cgroups::families(&rows, readings.now);
    families.extend(networks::families(&rows));
    families.extend(disks::families(&rows, node.root.as_ref(), &readings.disks));
    families.extend(machine::families(node, readings));
    let failed = if node.root.is_some() { 0.0 } else { 1.0 };
    families.push(gauge(
        "container_scrape_error",
        "1 if reading the cgroups failed",
        [plain(Vec::new(), failed)],
    ));
    in_order(families)
}

fn rows<'a>(node: &'a NodeReading, pods: &'a [PodReading], readings: &'a CadvisorReadings) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    if let Some(root) = &node.root {
        rows.push(Row {
            names: Names { id: "/".to_owned(), ..Names::default() },
            reading: root,
            created_at: node.booted_at.unwrap_or_default(),
            memory_limit: node.memory,
            swap_limit: node.swap,
            network: &readings.network,
        });
    }
    let others = node.system.iter().filter(|(name, _)| *name != "pods").map(|(_, reading)| reading);
    for reading in readings.classes.iter().chain(others) {
        rows.push(row(Names { id: reading.path.clone(), ..Names::default() }, reading, None, &[]));
    }
    for pod in pods {
        rows.extend(pod_rows(pod, readings));
    }
    rows
}

fn pod_rows<'a>(pod: &'a PodReading, readings: &CadvisorReadings) -> Vec<Row<'a>> {
    let names = |reading: &Reading| Names {
        id: reading.path.clone(),
        namespace: pod.pod.full_name.namespace.clone(),
        pod: pod.pod.full_name.name.clone(),
        ..Names::default()
    };
    let mut rows = Vec::new();
    if let Some(reading) = &pod.cgroup {
        rows.push(row(names(reading), reading, None, &[]));
    }
    if let Some(reading) = &pod.sandbox {
        let own = Names {
            name: pod.pod.sandbox.to_string(),
            image: readings.sandbox_images.get(&pod.pod.sandbox).cloned().unwrap_or_default(),
            ..names(reading)
        };
        let network = pod.network.as_deref().unwrap_or_default();
        rows.push(row(own, reading, Some(pod.pod.started_at), network));
    }
    for (container, reading) in pod.pod.containers.iter().zip(&pod.containers) {
        let Some(reading) = reading else { continue };
        let own = Names {
            name: container.id.to_string(),
            image: container.image.clone(),
            container: container.name.clone(),
            ..names(reading)
        };
        rows.push(row(own, reading, Some(container.created_at), &[]));
    }
    rows
}

fn row<'a>(
    names: Names,
    reading: &'a Reading,
    created_at: Option<Timestamp>,
    network: &'a [InterfaceUsage],
) -> Row<'a> {
    let memory = &reading.usage.memory;
    Row {
        names,
        reading,
        created_at: created_at.unwrap_or(reading.usage.created_at),
        memory_limit: memory.limit.unwrap_or_default(),
        swap_limit: memory.swap_limit.unwrap_or_default(),
        network,
    }
}
