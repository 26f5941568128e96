//! Events for users.

use model::RecordedEvent;

/// Takes events. Never blocks and never fails: an event that cannot be kept is dropped and counted.
pub trait EventRecorder: Send + Sync {
    /// Records one event.
    fn record(&self, event: RecordedEvent);
}
