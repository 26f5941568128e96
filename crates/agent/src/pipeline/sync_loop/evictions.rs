//! Events of evicted pods.

use decide::eviction::{EVICTED, EvictionNote};
use model::{EventSubject, EventType, Pod, RecordedEvent};

use super::SyncLoop;

impl SyncLoop {
    pub(super) fn record_eviction(&self, pod: &Pod, note: EvictionNote) {
        tracing::warn!(pod = %pod.full_name, message = %note.message, "evicting pod");
        self.deps.recorder.record(RecordedEvent {
            subject: EventSubject::pod(pod, String::new()),
            kind: EventType::Warning,
            reason: EVICTED.to_owned(),
            message: note.message,
            at: self.now(),
            annotations: note.annotations,
        });
    }
}
