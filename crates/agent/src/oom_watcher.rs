//! Tells by an event on the node when the whole machine runs out of memory.

use std::sync::Arc;

use decide::system_oom::SystemOom;
use futures::StreamExt;
use model::{EventSubject, EventType, RecordedEvent};
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::kernel_log::KernelLog;
use tokio_util::sync::CancellationToken;

/// What the stage needs.
pub struct Parts {
    /// What the kernel says.
    pub log: Arc<dyn KernelLog>,
    /// The node's name.
    pub node: String,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// Runs until cancelled. Where the kernel's log cannot be read that is told once, and nothing else.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => return,
        () = parts.watch() => {}
    }
    cancel.cancelled().await;
}

impl Parts {
    async fn watch(&self) {
        let mut records = match self.log.follow() {
            Ok(records) => records,
            Err(error) => {
                tracing::info!(%error, "the kernel's log cannot be read; SystemOOM is not told");
                return;
            }
        };
        let mut reader = SystemOom::default();
        while let Some(record) = records.next().await {
            match record {
                Ok(record) => {
                    if let Some(message) = reader.read(&record) {
                        self.tell(message);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the kernel's log cannot be read any more; SystemOOM is not told");
                    return;
                }
            }
        }
    }

    fn tell(&self, message: String) {
        tracing::warn!(%message, "the machine ran out of memory");
        self.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Node(self.node.clone()),
            kind: EventType::Warning,
            reason: "SystemOOM".to_owned(),
            message,
            at: self.clock.now(),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use ports::clock::SystemClock;
    use ports::kernel_log::KernelRecords;

    use super::*;
    use crate::event_log::EventLog;

    struct Recorded(Option<Vec<&'static str>>);

    impl KernelLog for Recorded {
        fn follow(&self) -> io::Result<KernelRecords> {
            let records = self.0.clone().ok_or(io::ErrorKind::PermissionDenied)?;
            Ok(futures::stream::iter(records.into_iter().map(|record| Ok(record.to_owned()))).boxed())
        }
    }

    #[tokio::test]
    async fn the_node_is_told_of_and_a_log_that_is_closed_to_us_is_borne() {
        let report = vec!["4,1,1,-;a invoked oom-killer: x", "3,2,1,-;Out of memory: Killed process 7 (a) y"];
        for (log, expected) in [(Some(report), 1), (None, 0)] {
            let events = Arc::new(EventLog::new(10));
            let parts = Parts {
                log: Arc::new(Recorded(log)),
                node: "node".to_owned(),
                events: events.clone(),
                clock: Arc::new(SystemClock),
            };
            parts.watch().await;
            let told = events.all();
            assert_eq!(told.len(), expected);
            for series in told {
                assert_eq!(series.event.reason, "SystemOOM");
                assert_eq!(series.event.subject, EventSubject::Node("node".to_owned()));
                assert_eq!(series.event.message, "System OOM encountered, victim process: a, pid: 7");
            }
        }
    }
}
