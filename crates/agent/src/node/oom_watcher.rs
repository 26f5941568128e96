//! Records a `SystemOOM` event on the node when the whole machine runs out of memory.

use std::sync::Arc;

use decide::node::system_oom::SystemOomParser;
use futures::StreamExt;
use model::{EventSubject, EventType, RecordedEvent};
use ports::clock::Clock;
use ports::host::kernel_log::KernelLog;
use ports::served::event_recorder::EventRecorder;
use tokio_util::sync::CancellationToken;

pub struct OomWatcherDeps {
    pub log: Arc<dyn KernelLog>,
    pub node: String,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
}

/// Runs until cancelled. If the kernel log cannot be read, this is logged once.
pub async fn run(deps: OomWatcherDeps, cancel: CancellationToken) {
    cancel.run_until_cancelled(deps.watch()).await;
    cancel.cancelled().await;
}

impl OomWatcherDeps {
    async fn watch(&self) {
        let mut records = match self.log.follow() {
            Ok(records) => records,
            Err(error) => {
                tracing::info!(%error, "failed to open kernel log, SystemOOM events are not recorded");
                return;
            }
        };
        let mut reader = SystemOomParser::default();
        while let Some(record) = records.next().await {
            match record {
                Ok(record) => {
                    if let Some(message) = reader.read(&record) {
                        self.record_event(message);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to read kernel log, SystemOOM events are no longer recorded");
                    return;
                }
            }
        }
    }

    fn record_event(&self, message: String) {
        tracing::warn!(%message, "system ran out of memory");
        let (subject, now) = (EventSubject::Node(self.node.clone()), self.clock.now());
        self.events.record(RecordedEvent::new(subject, EventType::Warning, "SystemOOM", message, now));
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use ports::clock::SystemClock;
    use ports::host::kernel_log::KernelRecords;

    use super::*;
    use crate::cluster::event_log::EventLog;

    struct FakeLog(Option<Vec<&'static str>>);

    impl KernelLog for FakeLog {
        fn follow(&self) -> io::Result<KernelRecords> {
            let records = self.0.clone().ok_or(io::ErrorKind::PermissionDenied)?;
            Ok(futures::stream::iter(records.into_iter().map(|record| Ok(record.to_owned()))).boxed())
        }
    }

    #[tokio::test]
    async fn records_system_oom_event_and_tolerates_unreadable_log() {
        let report = vec!["4,1,1,-;a invoked oom-killer: x", "3,2,1,-;Out of memory: Killed process 7 (a) y"];
        for (log, expected) in [(Some(report), 1), (None, 0)] {
            let events = Arc::new(EventLog::new(10));
            let deps = OomWatcherDeps {
                log: Arc::new(FakeLog(log)),
                node: "node".to_owned(),
                events: events.clone(),
                clock: Arc::new(SystemClock),
            };
            deps.watch().await;
            let recorded = events.all();
            assert_eq!(recorded.len(), expected);
            for series in recorded {
                assert_eq!(series.event.reason, "SystemOOM");
                assert_eq!(series.event.subject, EventSubject::Node("node".to_owned()));
                assert_eq!(series.event.message, "System OOM encountered, victim process: a, pid: 7");
            }
        }
    }
}
