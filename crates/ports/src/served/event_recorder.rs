//! Recording of Kubernetes events.

use model::RecordedEvent;

/// Records events. Never blocks and never fails: an event that does not fit is dropped and counted.
pub trait EventRecorder: Send + Sync {
    /// Records one event.
    fn record(&self, event: RecordedEvent);
}
