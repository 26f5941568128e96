//! The agent's own metrics, with upstream's names where upstream has them.
//!
//! Comes in: what stages and adapters count, one group per subject. Goes out: a [`Page`] on demand. What can be read from
//! a published table is not counted here but read when somebody asks ([`Collect`]): it is right also while a call hangs,
//! and costs nothing in between.

#[macro_use]
mod group;

mod api_requests;
mod bounds;
mod certificates;
mod containers;
mod evictions;
mod http_requests;
mod images;
mod node_start;
mod page;
mod pleg;
mod pod_resources;
mod pods;
mod probes;
mod resizes;
mod runtime;
mod series;
mod shutdown;
mod sources;
mod starts;
mod storage;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

pub use api_requests::ApiMetrics;
pub use certificates::CertificateMetrics;
pub use containers::ContainerMetrics;
pub use evictions::EvictionMetrics;
pub use http_requests::{HttpMetrics, RequestLabels};
pub use images::ImageMetrics;
pub use node_start::{NodeStart, StartGauges};
pub use page::{Format, Page};
pub use pleg::PlegMetrics;
pub use pod_resources::PodResourcesMetrics;
pub use pods::PodMetrics;
pub use probes::ProbeMetrics;
pub use resizes::ResizeMetrics;
pub use runtime::RuntimeMetrics;
pub use series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram, Series, exponential, to_gauge};
pub use shutdown::ShutdownMetrics;
pub use sources::SourceMetrics;
pub use starts::PodStarts;
pub use storage::StorageMetrics;

/// Something that knows the values of metrics when it is asked. Must not block.
pub trait Collect: Send + Sync {
    /// Adds its families to a page.
    fn collect(&self, page: &mut Page);
}

/// All metrics. Cheap to update, written on demand.
#[derive(Default)]
pub struct Metrics {
    /// Pods and their workers.
    pub pods: PodMetrics,
    /// How long starts take.
    pub starts: PodStarts,
    /// Containers.
    pub containers: ContainerMetrics,
    /// How the runtime is observed.
    pub pleg: PlegMetrics,
    /// Calls to the runtime, and cgroups.
    pub runtime: RuntimeMetrics,
    /// Images.
    pub images: ImageMetrics,
    /// Resizes of pods.
    pub resizes: ResizeMetrics,
    /// Pods that had to go.
    pub evictions: EvictionMetrics,
    /// Sources and logs.
    pub sources: SourceMetrics,
    /// Volumes, and what they come from.
    pub storage: StorageMetrics,
    /// The way of the node from boot to ready.
    pub node_start: NodeStart,
    /// Requests to the API server.
    pub api: Arc<ApiMetrics>,
    /// Requests to the node's API.
    pub http: HttpMetrics,
    /// Calls of the pod-resources socket.
    pub pod_resources: PodResourcesMetrics,
    /// Probes, on a page of their own.
    pub probes: ProbeMetrics,
    others: RwLock<Vec<Arc<dyn Collect>>>,
}

impl Metrics {
    /// All metrics, at zero.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self::default();
        metrics.pods.show_restarts();
        metrics
    }

    /// Asks also this for its families.
    pub fn add(&self, other: Arc<dyn Collect>) {
        self.others.write().unwrap_or_else(PoisonError::into_inner).push(other);
    }

    /// The page, except for probes.
    #[must_use]
    pub fn encode(&self, format: Format) -> String {
        let mut page = Page::new(format);
        self.pods.write(&mut page);
        self.containers.write(&mut page);
        self.pleg.write(&mut page);
        self.runtime.write(&mut page);
        self.images.write(&mut page);
        self.resizes.write(&mut page);
        self.evictions.write(&mut page);
        self.sources.write(&mut page);
        self.storage.write(&mut page);
        self.node_start.write(&mut page);
        self.api.write(&mut page);
        self.http.write(&mut page);
        self.pod_resources.write(&mut page);
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner).clone();
        for other in others {
            other.collect(&mut page);
        }
        page.into_text()
    }
}

impl ports::call_meter::CallMeter for Metrics {
    fn call_ended(&self, operation: &'static str, took: Duration, failed: bool) {
        self.runtime.call_ended(operation, took, failed);
    }
}

#[cfg(test)]
mod tests;
