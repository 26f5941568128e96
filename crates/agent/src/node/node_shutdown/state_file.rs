//! Times of the last shutdown, on disk and as metrics.

use std::future::Future;
use std::time::Duration;

use decide::node::node_shutdown::{ShutdownOnset, ShutdownState};
use ports::host::pod_folders::FileError;

use super::NodeShutdownDeps;

/// The name and format are upstream's.
const FILE: &str = "graceful_node_shutdown_state";
/// A disk that does not respond must not delay the shutdown.
const FILE_TIMEOUT: Duration = Duration::from_secs(2);

impl NodeShutdownDeps {
    /// Exports the times that the previous agent saved.
    pub(super) async fn export_saved_times(&self) {
        let Some(metrics) = &self.metrics else { return };
        let record = self.load().await;
        metrics.set(record.started, record.ended);
    }

    pub(super) async fn save_start(&self, onset: ShutdownOnset) {
        if self.metrics.is_some() {
            self.save(self.load().await.start(onset, self.clock.now())).await;
        }
    }

    pub(super) async fn save_end(&self) {
        if self.metrics.is_some() {
            self.save(ShutdownState { ended: Some(self.clock.now()), ..self.load().await }).await;
        }
    }

    async fn load(&self) -> ShutdownState {
        let Some(content) = with_timeout("read", self.state.load(FILE)).await.flatten() else {
            return ShutdownState::default();
        };
        ShutdownState::read(&content).unwrap_or_else(|| {
            tracing::warn!(file = FILE, "failed to parse times of the last shutdown");
            ShutdownState::default()
        })
    }

    async fn save(&self, record: ShutdownState) {
        if let Some(metrics) = &self.metrics {
            metrics.set(record.started, record.ended);
        }
        with_timeout("write", self.state.save(FILE, record.write())).await;
    }
}

async fn with_timeout<T>(operation: &str, work: impl Future<Output = Result<T, FileError>>) -> Option<T> {
    match tokio::time::timeout(FILE_TIMEOUT, work).await {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            tracing::error!(%error, source = %error.source, "failed to {operation} times of the last shutdown");
            None
        }
        Err(_) => {
            tracing::error!("failed to {operation} times of the last shutdown within {FILE_TIMEOUT:?}");
            None
        }
    }
}
