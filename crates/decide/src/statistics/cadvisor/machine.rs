//! Facts about the machine.

use model::metric_family::MetricFamily;

use super::CadvisorReadings;
use crate::statistics::families::{Labels, count, gauge, plain};
use crate::statistics::summary::NodeReading;

pub(super) fn families(node: &NodeReading, readings: &CadvisorReadings) -> Vec<MetricFamily> {
    let identity = &readings.identity;
    let labels: Labels = vec![
        ("boot_id", identity.boot_id.clone()),
        ("machine_id", identity.machine_id.clone()),
        ("system_uuid", identity.system_uuid.clone()),
    ];
    let one = |name, help, value: u64| gauge(name, help, [plain(labels.clone(), count(value))]);
    let modes = ["app_direct_mode", "memory_mode"].map(|mode| {
        let mut labels = labels.clone();
        labels.insert(2, ("mode", mode.to_owned()));
        plain(labels, 0.0)
    });
    let version: Labels = vec![
        ("cadvisorRevision", String::new()),
        ("cadvisorVersion", String::new()),
        ("dockerVersion", String::new()),
        ("kernelVersion", identity.kernel.clone()),
        ("osVersion", identity.os_image.clone()),
    ];
    vec![
        one("machine_cpu_cores", "Logical CPUs", readings.topology.logical),
        one("machine_cpu_physical_cores", "Physical CPU cores", readings.topology.cores),
        one("machine_cpu_sockets", "CPU sockets", readings.topology.sockets),
        one("machine_cpu_books", "CPU books of a mainframe", 0),
        one("machine_cpu_drawers", "CPU drawers of a mainframe", 0),
        one("machine_memory_bytes", "Installed memory", node.memory),
        one("machine_swap_bytes", "Swap space", node.swap),
        one("machine_nvm_avg_power_budget_watts", "Average power budget of non-volatile memory", 0),
        gauge("machine_nvm_capacity", "Capacity of non-volatile memory", modes),
        gauge("machine_scrape_error", "1 if reading the machine failed", [plain(Vec::new(), 0.0)]),
        gauge(
            "cadvisor_version_info",
            "Versions of the kernel and the operating system",
            [plain(version, 1.0)],
        ),
    ]
}
