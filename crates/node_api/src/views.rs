//! What the handlers read.

use std::sync::Arc;
use std::time::Duration;

use agent::event_log::EventLog;
use agent::file_report::FileReport;
use agent::kept_status::KeptStatus;
use agent::metrics::Metrics;
use agent::published::Reader;
use agent::statistics::Statistics;
use agent::timeline::Timelines;
use model::{Pod, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::check_record::CheckRecord;

/// The agent's published tables, and nothing that acts.
#[derive(Clone)]
pub struct Views {
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// Their statuses.
    pub statuses: Reader<KeptStatus>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// State of every manifest file.
    pub manifests: watch::Receiver<Vec<FileReport>>,
    /// Events.
    pub events: Arc<EventLog>,
    /// How pods came to run.
    pub timelines: Arc<Timelines>,
    /// What the node and its pods use; none on a node that cannot tell.
    pub statistics: Option<Arc<Statistics>>,
    /// Last sign of life of the sync loop.
    pub heartbeat: watch::Receiver<Instant>,
    /// How health checks went.
    pub checks: Arc<CheckRecord>,
    /// When the agent started.
    pub started_at: Timestamp,
    /// Longest silence of the sync loop that counts as healthy.
    pub longest_silence: Duration,
}

impl Views {
    /// Why the sync loop counts as stuck.
    #[must_use]
    pub fn loop_problem(&self) -> Option<String> {
        let silence = self.heartbeat.borrow().elapsed();
        (silence > self.longest_silence)
            .then(|| format!("sync loop took longer than expected: silent for {}s", silence.as_secs()))
    }
}
