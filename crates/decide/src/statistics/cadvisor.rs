//! `/metrics/cadvisor`: every cgroup with its names, and the machine.

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

/// What is shown besides the node and its pods.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// The time.
    pub now: Timestamp,
    /// Cgroups above those of pods.
    pub classes: Vec<Reading>,
    /// Images of sandboxes, as far as known.
    pub sandbox_images: BTreeMap<SandboxId, String>,
    /// The node's network.
    pub network: Vec<InterfaceUsage>,
    /// Disks.
    pub disks: Vec<MountedDisk>,
    /// CPUs.
    pub topology: CpuTopology,
    /// Who the machine is.
    pub identity: MachineIdentity,
}

/// A cgroup with its names.
struct Row<'a> {
    /// Path and whose it is.
    names: Names,
    /// What it uses.
    reading: &'a Reading,
    /// When it was made.
    created_at: Timestamp,
    /// Most memory it may use, 0 for no limit.
    memory_limit: u64,
    /// Most swap it may use, 0 for no limit.
    swap_limit: u64,
    /// Its network, where it stands for one.
    network: &'a [InterfaceUsage],
}

/// Labels that every series of a cgroup has.
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
    /// With further labels, ordered by name.
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

/// All families.
#[must_use]
pub fn cadvisor_families(node: &NodeReading, pods: &[PodReading], around: &Around) -> Vec<MetricFamily> {
    let rows = rows(node, pods, around);
    let mut families = cgroups::families(&rows, around.now);
    families.extend(networks::families(&rows));
    families.extend(disks::families(&rows, node.root.as_ref(), &around.disks));
    families.extend(machine::families(node, around));
    let failed = if node.root.is_some() { 0.0 } else { 1.0 };
    families.push(gauge(
        "container_scrape_error",
        "1 if the cgroups could not be read",
        [plain(Vec::new(), failed)],
    ));
    in_order(families)
}

fn rows<'a>(node: &'a NodeReading, pods: &'a [PodReading], around: &'a Around) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    if let Some(root) = &node.root {
        rows.push(Row {
            names: Names { id: "/".to_owned(), ..Names::default() },
            reading: root,
            created_at: node.booted_at.unwrap_or_default(),
            memory_limit: node.memory,
            swap_limit: node.swap,
            network: &around.network,
        });
    }
    let others = node.system.iter().filter(|(name, _)| *name != "pods").map(|(_, reading)| reading);
    for reading in around.classes.iter().chain(others) {
        rows.push(row(Names { id: reading.path.clone(), ..Names::default() }, reading, None, &[]));
    }
    for pod in pods {
        rows.extend(pod_rows(pod, around));
    }
    rows
}

fn pod_rows<'a>(pod: &'a PodReading, around: &Around) -> Vec<Row<'a>> {
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
            image: around.sandbox_images.get(&pod.pod.sandbox).cloned().unwrap_or_default(),
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
