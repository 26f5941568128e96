//! Pods that have to go for the good of the node.

use decide::eviction::EVICTED;
use model::{EventSubject, EventType, KillOptions, RecordedEvent, Rejection};

use super::SyncLoop;
use crate::messages::{Eviction, KillRequest};

impl SyncLoop {
    /// Ends a pod for good, if somebody still wants it.
    pub(super) fn handle_eviction(&mut self, eviction: Eviction) {
        let Some(pod) = self.parts.desired.reader().get(&eviction.uid) else { return };
        tracing::warn!(pod = %pod.full_name, message = %eviction.message, "evicting a pod");
        self.parts.recorder.record(RecordedEvent {
            subject: EventSubject::pod(&pod, String::new()),
            kind: EventType::Warning,
            reason: EVICTED.to_owned(),
            message: eviction.message.clone(),
            at: self.now(),
            annotations: eviction.annotations,
        });
        let rejection = Rejection { reason: EVICTED.to_owned(), message: eviction.message };
        let options =
            KillOptions { grace_override: Some(eviction.grace_seconds), rejection: Some(rejection) };
        self.handle_kill(KillRequest { uid: eviction.uid, options });
    }
}
