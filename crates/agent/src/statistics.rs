//! What the node, its pods and containers use, when somebody asks.
//!
//! Comes in: the published tables, readings of the kernel and of the runtime. Goes out: the summary and metric families.
//! Nothing is read before a question. Questions at the same time share one reading; one that is younger than a second
//! answers the next as well. A runtime that hangs costs its own figures, never the answer.

mod driver_side;
mod files;
mod gather;
mod of_pods;
mod runtime_side;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use decide::statistics::cadvisor::{Around, cadvisor_families};
use decide::statistics::claims::{claim_families, log_family};
use decide::statistics::resource::resource_families;
use decide::statistics::summary::{Surroundings, summary};
use model::metric_family::MetricFamily;
use model::statistics::Summary;
use model::{NodeSettings, Pod, Timestamp};
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::host_facts::HostFacts;
use ports::runtime::Runtime;
use ports::usage::{Detail, DiskUsage, Usage};
use tokio::sync::{Mutex, OnceCell};

use crate::claims::Claims;
use crate::csi_drivers::CsiDrivers;
use crate::metrics::Metrics;
use crate::observation::Observer;
use crate::published::Reader;

use files::Files;
use gather::{Rates, Readings, Shared};
use runtime_side::RuntimeSide;

/// What the statistics need.
pub struct Parts {
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Counters of the kernel.
    pub usage: Arc<dyn Usage>,
    /// File systems and folders.
    pub disks: Arc<dyn DiskUsage>,
    /// What runs.
    pub observer: Observer,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// Claims of pods, with an API server.
    pub claims: Option<Arc<Claims>>,
    /// CSI drivers, with an API server.
    pub drivers: Option<Arc<CsiDrivers>>,
    /// Where volumes that are not well are told of.
    pub events: Arc<dyn EventRecorder>,
    /// Where the time of measuring is counted.
    pub metrics: Arc<Metrics>,
    /// Facts of the machine.
    pub host: Arc<dyn HostFacts>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The node.
    pub node: Arc<NodeSettings>,
    /// How.
    pub settings: Settings,
}

/// What is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `volumeStatsAggPeriod`: how long what was counted of a volume stands; `None`: volumes are not counted.
    pub volume_period: Option<Duration>,
    /// The gate `CSIVolumeHealth`: whether what drivers say of the health of volumes is told.
    pub volume_health: bool,
    /// `kubeletCgroups`; this process's own cgroup without it.
    pub kubelet_cgroup: Option<String>,
    /// `--runtime-cgroups`.
    pub runtime_cgroup: Option<String>,
    /// `systemCgroups`.
    pub system_cgroup: Option<String>,
}

/// What a summary tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    Everything,
    /// CPU and memory.
    CpuAndMemory,
}

/// The service.
pub struct Statistics {
    parts: Parts,
    started_at: Timestamp,
    shared: Shared<Readings>,
    rates: std::sync::Mutex<Rates>,
    own_cgroup: OnceCell<Option<String>>,
    files: Mutex<Files>,
    runtime_side: Mutex<RuntimeSide>,
}

impl Statistics {
    /// Reads nothing yet.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            started_at: parts.clock.now(),
            parts,
            shared: Shared::default(),
            rates: std::sync::Mutex::default(),
            own_cgroup: OnceCell::new(),
            files: Mutex::default(),
            runtime_side: Mutex::default(),
        }
    }

    /// `/stats/summary`.
    pub async fn summary(&self, scope: Scope) -> Summary {
        let readings = self.readings(Detail::Summary).await;
        let around = match scope {
            Scope::Everything => Some(self.surroundings(&readings).await),
            Scope::CpuAndMemory => None,
        };
        summary(&readings.node, &readings.pods, around.as_ref())
    }

    /// `/metrics/resource`.
    pub async fn resource(&self) -> Vec<MetricFamily> {
        let readings = self.readings(Detail::Basic).await;
        resource_families(&readings.node, &readings.pods)
    }

    /// `/metrics/cadvisor`.
    pub async fn cadvisor(&self) -> Vec<MetricFamily> {
        let readings = self.readings(Detail::Full).await;
        let usage = &self.parts.usage;
        let (network, disks, topology) = tokio::join!(usage.host_network(), usage.disks(), usage.topology());
        let sandboxes = readings.pods.iter().map(|pod| pod.pod.sandbox.clone()).collect();
        let around = Around {
            now: self.parts.clock.now(),
            classes: readings.classes.clone(),
            sandbox_images: self.runtime_side.lock().await.images(&*self.parts.runtime, sandboxes).await,
            network,
            disks,
            topology,
            identity: self.parts.host.identity(),
        };
        cadvisor_families(&readings.node, &readings.pods, &around)
    }

    /// What `/metrics` tells of volumes and logs.
    pub async fn disk_families(&self) -> Vec<MetricFamily> {
        let pods = self.running();
        let files = self.files.lock().await.of(&self.parts, &pods).await;
        let mut families = claim_families(files.values());
        families.extend(log_family(pods.iter().filter_map(|pod| Some((pod, files.get(&pod.uid)?)))));
        families
    }

    async fn surroundings(&self, readings: &Readings) -> Surroundings {
        let Parts { usage, disks, node, clock, runtime, .. } = &self.parts;
        let from_runtime = async { self.runtime_side.lock().await.figures(&**runtime, &**disks).await };
        let from_disk = async {
            let pods = readings.pods.iter().map(|pod| &pod.pod).filter(|pod| pod.has_containers());
            let pods: Vec<_> = pods.cloned().collect();
            self.files.lock().await.of(&self.parts, &pods).await
        };
        let rooms = disks.rooms(vec![node.root_dir.clone()]);
        let (network, processes, rooms, told, files) =
            tokio::join!(usage.host_network(), usage.processes(), rooms, from_runtime, from_disk);
        Surroundings {
            time: clock.now(),
            network,
            node_fs: rooms.into_iter().next().flatten(),
            image_fs: told.image_fs,
            container_fs: told.container_fs,
            processes,
            layers: told.layers,
            files,
        }
    }
}
