//! The state of the agent that the handlers read.

use std::sync::Arc;
use std::time::Duration;

use agent::cluster::event_log::EventLog;
use agent::metrics::Metrics;
use agent::pipeline::cached_status::CachedStatus;
use agent::pipeline::plugin_devices::PluginDevices;
use agent::pipeline::tables::Reader;
use agent::pipeline::timeline::Timelines;
use agent::statistics::Statistics;
use model::local_api::FileReport;
use model::{Pod, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::health_check_metrics::HealthCheckMetrics;

/// Read access to the agent's published tables. Nothing in here can act on a pod.
#[derive(Clone)]
pub struct PublishedState {
    pub desired: Reader<Pod>,
    pub statuses: Reader<CachedStatus>,
    pub metrics: Arc<Metrics>,
    /// One report per manifest file.
    pub manifests: watch::Receiver<Vec<FileReport>>,
    pub events: Arc<EventLog>,
    pub timelines: Arc<Timelines>,
    /// `None` on a node that cannot measure.
    pub statistics: Option<Arc<Statistics>>,
    /// When the sync loop last started an iteration.
    pub heartbeat: watch::Receiver<Instant>,
    pub checks: Arc<HealthCheckMetrics>,
    pub devices: PluginDevices,
    /// When the agent started.
    pub started_at: Timestamp,
    /// A sync loop without a heartbeat for longer than this counts as stuck.
    pub heartbeat_timeout: Duration,
}

impl PublishedState {
    /// Why the sync loop counts as stuck; `None` while it is healthy.
    #[must_use]
    pub fn sync_loop_problem(&self) -> Option<String> {
        let silence = self.heartbeat.borrow().elapsed();
        (silence > self.heartbeat_timeout)
            .then(|| format!("sync loop took longer than expected: silent for {}s", silence.as_secs()))
    }
}
