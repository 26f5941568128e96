//! Rotates the logs of running containers that have grown too large.
//!
//! One walk per interval over what is observed; a look at a log costs one `stat`. Every step can be cut off: a log
//! that was moved away is still written to until the runtime opens a new one, which the next walk asks for when it
//! finds none; what a broken-off compression left is removed before the next rotation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use decide::log_rotation::tidy;
use futures::StreamExt;
use model::{ContainerId, ContainerState};
use ports::clock::Clock;
use ports::pod_folders::FileError;
use ports::rotated_logs::{LogSize, RotatedLogs};
use ports::runtime::{Runtime, RuntimeError};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::observation::Observer;

/// When and how logs are rotated.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Size in bytes at which a log is rotated; `None` for never.
    pub max_size: Option<u64>,
    /// Files kept per container, the log itself among them.
    pub max_files: usize,
    /// Logs rotated at once.
    pub workers: usize,
    /// Time between two walks.
    pub interval: Duration,
}

/// What the rotation needs.
pub struct Parts {
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Log files.
    pub logs: Arc<dyn RotatedLogs>,
    /// What runs.
    pub observer: Observer,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// When and how.
    pub settings: Settings,
}

#[derive(Debug, thiserror::Error)]
enum RotationError {
    #[error("{}: {}", .0, .0.source)]
    File(#[from] FileError),
    #[error("reopen the log: {0}")]
    Reopen(#[from] RuntimeError),
}

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let Some(max_size) = parts.settings.max_size else { return cancel.cancelled().await };
    let mut ticks = tokio::time::interval(parts.settings.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => {}
        }
        parts.walk(max_size, &cancel).await;
    }
}

struct Log {
    container: ContainerId,
    path: PathBuf,
}

impl Parts {
    async fn walk(&self, max_size: u64, cancel: &CancellationToken) {
        let logs = self.running_logs();
        if logs.is_empty() {
            return;
        }
        let sizes = self.logs.sizes(logs.iter().map(|log| log.path.clone()).collect()).await;
        let due = logs.into_iter().zip(sizes).filter(|(_, size)| match size {
            LogSize::Bytes(bytes) => *bytes >= max_size,
            LogSize::Missing => true,
            LogSize::Foreign => false,
        });
        let workers = Some(self.settings.workers.max(1));
        futures::stream::iter(due)
            .for_each_concurrent(workers, |(log, size)| async move {
                // A rotation that has begun is finished.
                if cancel.is_cancelled() {
                    return;
                }
                let done = match size {
                    LogSize::Missing => self.reopen(&log).await,
                    LogSize::Bytes(_) | LogSize::Foreign => self.rotate(&log).await,
                };
                if let Err(error) = done {
                    tracing::warn!(container = %log.container, log = %log.path.display(), %error, "the log was not rotated");
                }
            })
            .await;
    }

    fn running_logs(&self) -> Vec<Log> {
        let pods = self.observer.all();
        let containers = pods.iter().flat_map(|pod| &pod.containers);
        containers
            .filter(|status| status.state == ContainerState::Running && !status.log_path.is_empty())
            .map(|status| Log { container: status.id.clone(), path: PathBuf::from(&status.log_path) })
            .collect()
    }

    /// A log that was moved away before the agent was killed: the runtime still writes to the moved one.
    async fn reopen(&self, log: &Log) -> Result<(), RotationError> {
        match self.runtime.reopen_container_log(&log.container).await {
            // It ended since it was seen.
            Err(error) if error.is_not_found() => Ok(()),
            done => Ok(done?),
        }
    }

    async fn rotate(&self, log: &Log) -> Result<(), RotationError> {
        let tidying = tidy(self.logs.rotated(&log.path).await?, self.settings.max_files);
        for name in &tidying.remove {
            self.logs.remove(&log.path, name).await?;
        }
        for name in &tidying.compress {
            self.logs.compress(&log.path, name).await?;
        }
        let moved = self.logs.move_away(&log.path, self.clock.now()).await?;
        if let Err(error) = self.runtime.reopen_container_log(&log.container).await {
            if let Err(stays) = self.logs.move_back(&log.path, &moved).await {
                tracing::warn!(container = %log.container, error = %stays, source = %stays.source, "the log keeps its rotated name");
            }
            return Err(error.into());
        }
        self.metrics.sources.logs_rotated.inc();
        Ok(())
    }
}
