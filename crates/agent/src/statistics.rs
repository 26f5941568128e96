//! Resource use of the node, its pods and containers, read on request.
//!
//! Concurrent requests share one reading, and a reading is reused for one second. A runtime that hangs delays only its own
//! values, never the answer. Volumes are measured in the background.

mod driver_side;
mod gather;
mod of_pods;
mod pod_files;
mod runtime_side;
#[cfg(test)]
mod tests;
mod volume_meter;
mod volume_usage;

use std::sync::Arc;
use std::time::Duration;

use decide::statistics::cadvisor::{CadvisorReadings, cadvisor_families};
use decide::statistics::claims::{claim_families, log_family};
use decide::statistics::readings::RunningPod;
use decide::statistics::resource::resource_families;
use decide::statistics::summary::{EnvironmentReading, summary};
use model::metric_family::MetricFamily;
use model::statistics::Summary;
use model::{NodeSettings, Pod, PodUid, Timestamp};
use ports::clock::Clock;
use ports::host::host_facts::HostFacts;
use ports::host::usage::{Detail, DiskUsage, Usage};
use ports::runtime::Runtime;
use ports::served::event_recorder::EventRecorder;
use ports::served::pod_statistics::DiskParts;
use tokio::sync::{Mutex, OnceCell};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::pipeline::observation::Observer;
use crate::pipeline::tables::Reader;
use crate::volumes::claims::Claims;
use crate::volumes::csi_drivers::CsiDrivers;

use gather::{Rates, Readings, Shared};
use runtime_side::{Figures, RuntimeSide};
use volume_meter::VolumeMeter;
use volume_usage::VolumeUsage;

pub struct StatisticsDeps {
    pub runtime: Arc<dyn Runtime>,
    pub usage: Arc<dyn Usage>,
    pub disks: Arc<dyn DiskUsage>,
    pub observer: Observer,
    pub desired: Reader<Pod>,
    /// `None` without an API server.
    pub claims: Option<Arc<Claims>>,
    /// `None` without an API server.
    pub drivers: Option<Arc<CsiDrivers>>,
    pub events: Arc<dyn EventRecorder>,
    pub metrics: Arc<Metrics>,
    pub host: Arc<dyn HostFacts>,
    pub clock: Arc<dyn Clock>,
    pub node: Arc<NodeSettings>,
    pub settings: Settings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `volumeStatsAggPeriod`: how long the use of a volume is cached; `None` disables volume statistics.
    pub volume_period: Option<Duration>,
    /// The gate `CSIVolumeHealth`: whether volume conditions are reported.
    pub volume_health: bool,
    /// `kubeletCgroups`; by default the cgroup of this process.
    pub kubelet_cgroup: Option<String>,
    /// `--runtime-cgroups`.
    pub runtime_cgroup: Option<String>,
    /// `systemCgroups`.
    pub system_cgroup: Option<String>,
}

/// Scope of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Everything,
    CpuAndMemory,
}

pub struct Statistics {
    deps: StatisticsDeps,
    started_at: Timestamp,
    shared: Shared<Readings>,
    rates: parking_lot::Mutex<Rates>,
    own_cgroup: OnceCell<Option<String>>,
    volumes: VolumeUsage,
    volume_meter: VolumeMeter,
    runtime_side: Mutex<RuntimeSide>,
}

impl Statistics {
    #[must_use]
    pub fn new(deps: StatisticsDeps) -> Self {
        let volumes = VolumeUsage::new(deps.settings.volume_period);
        Self {
            started_at: deps.clock.now(),
            deps,
            shared: Shared::default(),
            rates: parking_lot::Mutex::default(),
            own_cgroup: OnceCell::new(),
            volumes,
            volume_meter: VolumeMeter::default(),
            runtime_side: Mutex::default(),
        }
    }

    /// Measures volumes for the requests, until cancelled.
    pub async fn measure_volumes(self: Arc<Self>, cancel: CancellationToken) {
        let (deps, meter) = (&self.deps, &self.volume_meter);
        let measure = |uid: PodUid, last| async move { meter.measure(deps, &uid, last).await };
        cancel.run_until_cancelled(self.volumes.run(measure)).await;
    }

    /// `/stats/summary`.
    pub async fn summary(&self, scope: Scope) -> Summary {
        let readings = self.readings(Detail::Summary).await;
        let around = match scope {
            Scope::Everything => Some(self.environment(&readings).await),
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
        let usage = &self.deps.usage;
        let (network, disks, topology) = tokio::join!(usage.host_network(), usage.disks(), usage.topology());
        let sandboxes = readings.pods.iter().map(|pod| pod.pod.sandbox.clone()).collect();
        let around = CadvisorReadings {
            now: self.deps.clock.now(),
            classes: readings.classes.clone(),
            sandbox_images: self.runtime_side.lock().await.images(&*self.deps.runtime, sandboxes).await,
            network,
            disks,
            topology,
            identity: self.deps.host.identity(),
        };
        cadvisor_families(&readings.node, &readings.pods, &around)
    }

    /// The families of volumes and logs in `/metrics`.
    pub async fn disk_families(&self) -> Vec<MetricFamily> {
        let pods = self.running();
        let files = pod_files::of_pods(&self.deps, &self.volumes, &pods).await;
        let mut families = claim_families(files.values());
        families.extend(log_family(pods.iter().filter_map(|pod| Some((pod, files.get(&pod.uid)?)))));
        families
    }

    async fn environment(&self, readings: &Readings) -> EnvironmentReading {
        let usage = &self.deps.usage;
        let pods = readings.pods.iter().map(|pod| &pod.pod).filter(|pod| pod.has_containers());
        let pods: Vec<_> = pods.cloned().collect();
        let disks = self.disk_environment(&pods, DiskParts::FilesAndLayers);
        let (network, processes, disks) = tokio::join!(usage.host_network(), usage.processes(), disks);
        EnvironmentReading { network, processes, ..disks }
    }

    /// Reads only disks; the other values are empty.
    async fn disk_environment(&self, pods: &[RunningPod], parts: DiskParts) -> EnvironmentReading {
        let StatisticsDeps { disks, node, clock, runtime, .. } = &self.deps;
        let from_runtime = async {
            match parts {
                DiskParts::Files => Figures::default(),
                DiskParts::FilesAndLayers => {
                    self.runtime_side.lock().await.figures(&**runtime, &**disks).await
                }
            }
        };
        let from_disk = pod_files::of_pods(&self.deps, &self.volumes, pods);
        let rooms = disks.rooms(vec![node.root_dir.clone()]);
        let (rooms, runtime, files) = tokio::join!(rooms, from_runtime, from_disk);
        EnvironmentReading {
            time: clock.now(),
            node_fs: rooms.into_iter().next().flatten(),
            image_fs: runtime.image_fs,
            container_fs: runtime.container_fs,
            layers: runtime.layers,
            files,
            ..EnvironmentReading::default()
        }
    }
}
