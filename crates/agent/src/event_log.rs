//! The newest events, kept in memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use model::{EventSubject, EventType, RecordedEvent};
use ports::event_recorder::EventRecorder;

/// A bounded store of events; the oldest goes when it is full.
#[derive(Debug)]
pub struct EventLog {
    capacity: usize,
    events: Mutex<VecDeque<RecordedEvent>>,
}

impl EventLog {
    /// A store for that many events.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), events: Mutex::new(VecDeque::new()) }
    }

    /// All events, oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<RecordedEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl EventRecorder for EventLog {
    fn record(&self, event: RecordedEvent) {
        let (pod, field) = match &event.subject {
            EventSubject::Pod { full_name, field_path, .. } => (full_name.to_string(), field_path.as_str()),
            EventSubject::Node(name) => (name.clone(), ""),
        };
        match event.kind {
            EventType::Normal => {
                tracing::info!(target: "podward::event", subject = %pod, field, reason = %event.reason, "{}", event.message);
            }
            EventType::Warning => {
                tracing::warn!(target: "podward::event", subject = %pod, field, reason = %event.reason, "{}", event.message);
            }
        }
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() == self.capacity {
            events.pop_front();
        }
        events.push_back(event);
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    #[test]
    fn the_oldest_event_goes_first() {
        let log = EventLog::new(2);
        for reason in ["a", "b", "c"] {
            log.record(RecordedEvent {
                subject: EventSubject::Node("n".into()),
                kind: EventType::Normal,
                reason: reason.into(),
                message: String::new(),
                at: Timestamp::ZERO,
            });
        }
        let reasons: Vec<_> = log.all().into_iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["b", "c"]);
    }
}
