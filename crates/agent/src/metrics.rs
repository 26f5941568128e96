//! The agent's metrics, with upstream's names where upstream has them.
//!
//! Stages and adapters update one group of metrics per subject. Values that can be read from a published table are not counted, but
//! collected for each page ([`Collect`]): they stay correct while a call hangs, and cost nothing between scrapes.

pub mod metered_cgroups;
pub mod pod_gauges;

#[macro_use]
mod group;

mod api_requests;
mod bounds;
mod certificates;
mod containers;
mod cpus;
mod devices;
mod dynamic_resources;
mod evictions;
mod http_requests;
mod images;
mod memory;
mod memory_qos;
mod node_start;
mod page;
mod pleg;
mod pod_resources;
mod pods;
mod probes;
mod resizes;
mod resource_managers;
mod runtime;
mod series;
mod shutdown;
mod sources;
mod starts;
mod storage;
mod topology;

use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;

pub use certificates::CertificateMetrics;
pub use http_requests::RequestLabels;
pub use memory_qos::MemoryQosMetrics;
pub use node_start::{NodeStart, StartGauges};
pub use page::{Format, Page};
pub use series::to_gauge;
pub use shutdown::ShutdownMetrics;

/// A source of metrics that is read for each page. Must not block.
pub trait Collect: Send + Sync {
    /// Adds its families to a page.
    fn collect(&self, page: &mut Page);
}

/// All metrics. Cheap to update, encoded on request.
#[derive(Default)]
pub struct Metrics {
    pub pods: pods::PodMetrics,
    pub starts: starts::PodStarts,
    pub containers: containers::ContainerMetrics,
    pub cpus: cpus::CpuMetrics,
    pub memory: memory::MemoryMetrics,
    pub devices: devices::DeviceMetrics,
    pub topology: topology::TopologyMetrics,
    pub pleg: pleg::PlegMetrics,
    /// Runtime calls and cgroup operations.
    pub runtime: runtime::RuntimeMetrics,
    pub images: images::ImageMetrics,
    pub memory_qos: memory_qos::MemoryQosMetrics,
    pub resource_managers: resource_managers::ResourceManagerMetrics,
    pub resizes: resizes::ResizeMetrics,
    pub evictions: evictions::EvictionMetrics,
    pub sources: sources::SourceMetrics,
    /// Volumes, CSI drivers and plugins.
    pub storage: storage::StorageMetrics,
    pub dynamic_resources: dynamic_resources::DynamicResourceMetrics,
    /// Durations from boot to ready.
    pub node_start: NodeStart,
    /// Requests to the API server.
    pub api: Arc<api_requests::ApiMetrics>,
    /// Requests to the node API.
    pub http: http_requests::HttpMetrics,
    pub pod_resources: pod_resources::PodResourcesMetrics,
    /// Exposed on a separate page.
    pub probes: probes::ProbeMetrics,
    others: RwLock<Vec<Arc<dyn Collect>>>,
}

impl Metrics {
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self::default();
        metrics.pods.show_restarts();
        metrics
    }

    /// Adds a source of metrics.
    pub fn add(&self, other: Arc<dyn Collect>) {
        self.others.write().push(other);
    }

    /// The page without probe metrics.
    #[must_use]
    pub fn encode(&self, format: Format) -> String {
        let mut page = Page::new(format);
        self.pods.write(&mut page);
        self.containers.write(&mut page);
        self.cpus.write(&mut page);
        self.memory.write(&mut page);
        self.devices.write(&mut page);
        self.topology.write(&mut page);
        self.pleg.write(&mut page);
        self.runtime.write(&mut page);
        self.images.write(&mut page);
        self.memory_qos.write(&mut page);
        self.resource_managers.write(&mut page);
        self.resizes.write(&mut page);
        self.evictions.write(&mut page);
        self.sources.write(&mut page);
        self.storage.write(&mut page);
        self.dynamic_resources.write(&mut page);
        self.node_start.write(&mut page);
        self.api.write(&mut page);
        self.http.write(&mut page);
        self.pod_resources.write(&mut page);
        let others = self.others.read().clone();
        for other in others {
            other.collect(&mut page);
        }
        page.into_text()
    }
}

impl ports::telemetry::call_meter::CallMeter for Metrics {
    fn call_ended(&self, operation: &'static str, took: Duration, failed: bool) {
        self.runtime.call_ended(operation, took, failed);
    }
}

#[cfg(test)]
mod tests;
