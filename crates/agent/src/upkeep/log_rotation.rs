//! Rotates the logs of running containers that have grown too large.
//!
//! Each interval checks every observed container with one `stat`. Every step may be interrupted: the runtime writes to a moved log
//! until it reopens its log file, which the next check requests when the log is missing; leftovers of an interrupted compression are
//! removed before the next rotation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use decide::logs::log_rotation::rotation_cleanup;
use futures::StreamExt;
use model::{ContainerId, ContainerState};
use ports::clock::Clock;
use ports::host::pod_folders::FileError;
use ports::host::rotated_logs::{LogSize, RotatedLogs};
use ports::runtime::{Runtime, RuntimeError};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::pipeline::observation::Observer;

#[derive(Clone, Copy, Debug)]
pub struct LogRotationSettings {
    /// Size in bytes at which a log is rotated; `None` for never.
    pub max_size: Option<u64>,
    /// Files per container, including the current log.
    pub max_files: usize,
    pub workers: usize,
    pub interval: Duration,
}

pub struct LogRotationDeps {
    pub runtime: Arc<dyn Runtime>,
    pub logs: Arc<dyn RotatedLogs>,
    pub observer: Observer,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub settings: LogRotationSettings,
}

#[derive(Debug, thiserror::Error)]
enum RotationError {
    #[error("{}: {}", .0, .0.source)]
    File(#[from] FileError),
    #[error("reopen the log: {0}")]
    Reopen(#[from] RuntimeError),
}

/// Runs until cancelled.
pub async fn run(deps: LogRotationDeps, cancel: CancellationToken) {
    let Some(max_size) = deps.settings.max_size else { return cancel.cancelled().await };
    let mut ticks = tokio::time::interval(deps.settings.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => {}
        }
        deps.walk(max_size, &cancel).await;
    }
}

struct Log {
    container: ContainerId,
    path: PathBuf,
}

impl LogRotationDeps {
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
                // A started rotation is completed.
                if cancel.is_cancelled() {
                    return;
                }
                let done = match size {
                    LogSize::Missing => self.reopen(&log).await,
                    LogSize::Bytes(_) | LogSize::Foreign => self.rotate(&log).await,
                };
                if let Err(error) = done {
                    tracing::warn!(container = %log.container, log = %log.path.display(), %error, "failed to rotate container log");
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

    /// The log was moved before the agent was killed: the runtime still writes to the moved file.
    async fn reopen(&self, log: &Log) -> Result<(), RotationError> {
        match self.runtime.reopen_container_log(&log.container).await {
            // The container has exited meanwhile.
            Err(error) if error.is_not_found() => Ok(()),
            done => Ok(done?),
        }
    }

    async fn rotate(&self, log: &Log) -> Result<(), RotationError> {
        let tidying = rotation_cleanup(self.logs.rotated(&log.path).await?, self.settings.max_files);
        for name in &tidying.remove {
            self.logs.remove(&log.path, name).await?;
        }
        for name in &tidying.compress {
            self.logs.compress(&log.path, name).await?;
        }
        let moved = self.logs.move_away(&log.path, self.clock.now()).await?;
        if let Err(error) = self.runtime.reopen_container_log(&log.container).await {
            if let Err(stays) = self.logs.move_back(&log.path, &moved).await {
                tracing::warn!(container = %log.container, error = %stays, source = %stays.source, "failed to move a rotated log back");
            }
            return Err(error.into());
        }
        self.metrics.sources.logs_rotated.inc();
        Ok(())
    }
}
