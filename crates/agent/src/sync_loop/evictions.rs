//! Pods that have to go for the good of the node.

use decide::eviction::{EVICTED, EvictionNote};
use model::{EventSubject, EventType, Pod, RecordedEvent};

use super::SyncLoop;

impl SyncLoop {
    /// Tells of a pod that is ended for good.
    pub(super) fn tell_of_eviction(&self, pod: &Pod, note: EvictionNote) {
        tracing::warn!(pod = %pod.full_name, message = %note.message, "evicting a pod");
        self.parts.recorder.record(RecordedEvent {
            subject: EventSubject::pod(pod, String::new()),
            kind: EventType::Warning,
            reason: EVICTED.to_owned(),
            message: note.message,
            at: self.now(),
            annotations: note.annotations,
        });
    }
}
