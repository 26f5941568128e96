//! The times of the last end, on disk and as metrics.

use std::future::Future;
use std::time::Duration;

use decide::node_shutdown::{Onset, Record};
use ports::pod_folders::FileError;

use super::Parts;

/// Upstream's file.
const FILE: &str = "graceful_node_shutdown_state";
/// A disk that hangs holds up nothing.
const DEADLINE: Duration = Duration::from_secs(2);

impl Parts {
    /// Shows what an agent before this one wrote down.
    pub(super) async fn show_record(&self) {
        let Some(metrics) = &self.metrics else { return };
        let record = self.load().await;
        metrics.set(record.started, record.ended);
    }

    pub(super) async fn record_begin(&self, onset: Onset) {
        if self.metrics.is_some() {
            self.save(self.load().await.begun(onset, self.clock.now())).await;
        }
    }

    pub(super) async fn record_end(&self) {
        if self.metrics.is_some() {
            self.save(Record { ended: Some(self.clock.now()), ..self.load().await }).await;
        }
    }

    async fn load(&self) -> Record {
        let Some(content) = within("read", self.state.load(FILE)).await.flatten() else {
            return Record::default();
        };
        Record::read(&content).unwrap_or_else(|| {
            tracing::warn!(file = FILE, "the times of the last shutdown cannot be read");
            Record::default()
        })
    }

    async fn save(&self, record: Record) {
        if let Some(metrics) = &self.metrics {
            metrics.set(record.started, record.ended);
        }
        within("written", self.state.save(FILE, record.write())).await;
    }
}

async fn within<T>(what: &str, work: impl Future<Output = Result<T, FileError>>) -> Option<T> {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            tracing::error!(%error, source = %error.source, "the times of the last shutdown cannot be {what}");
            None
        }
        Err(_) => {
            tracing::error!("the times of the last shutdown cannot be {what} within {DEADLINE:?}");
            None
        }
    }
}
