//! The newest events, kept in memory: equal ones are counted, floods of similar ones are combined.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::{EventSubject, EventType, RecordedEvent, Timestamp};
use ports::event_recorder::EventRecorder;
use tokio::sync::watch;

/// How many events that differ in their message alone are kept apart.
const SIMILAR: usize = 10;
/// How long events count as similar.
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// How upstream marks a message that stands for many.
const COMBINED: &str = "(combined from similar events): ";

/// An event and how often it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSeries {
    /// The event as it happened last.
    pub event: RecordedEvent,
    /// When it happened first.
    pub first_at: Timestamp,
    /// How often.
    pub count: u32,
    /// Its place in the order of everything that was recorded.
    pub sequence: u64,
}

/// A bounded store of events; the one that happened least recently goes when it is full.
#[derive(Debug)]
pub struct EventLog {
    capacity: usize,
    events: Mutex<VecDeque<EventSeries>>,
    newest: watch::Sender<u64>,
}

impl EventLog {
    /// A store for that many events.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), events: Mutex::new(VecDeque::new()), newest: watch::Sender::new(0) }
    }

    /// The number of the newest event, and a way to wait for newer ones.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// All events, the one that happened last at the end.
    #[must_use]
    pub fn all(&self) -> Vec<EventSeries> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl EventRecorder for EventLog {
    fn record(&self, event: RecordedEvent) {
        tell(&event);
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut series = next(&mut events, event);
        series.sequence = self.newest.borrow().saturating_add(1);
        let sequence = series.sequence;
        if events.len() == self.capacity {
            events.pop_front();
        }
        events.push_back(series);
        // Before another can take its number from here.
        self.newest.send_replace(sequence);
    }
}

/// The series an event continues, taken out of the others, or a new one.
fn next(events: &mut VecDeque<EventSeries>, mut event: RecordedEvent) -> EventSeries {
    let mut same = events.iter().rposition(|known| is_same(&known.event, &event));
    if same.is_none() {
        let recent = |known: &&EventSeries| event.at.since(known.event.at) <= SIMILAR_WITHIN;
        let similar = |known: &&EventSeries| is_similar(&known.event, &event);
        if events.iter().filter(recent).filter(similar).count() >= SIMILAR {
            same = events.iter().rposition(|known| {
                is_similar(&known.event, &event) && known.event.message.starts_with(COMBINED)
            });
            event.message = format!("{COMBINED}{}", event.message);
        }
    }
    match same.and_then(|at| events.remove(at)) {
        Some(known) => {
            EventSeries { event, first_at: known.first_at, count: known.count.saturating_add(1), sequence: 0 }
        }
        None => EventSeries { first_at: event.at, event, count: 1, sequence: 0 },
    }
}

fn is_similar(known: &RecordedEvent, event: &RecordedEvent) -> bool {
    known.reason == event.reason && known.kind == event.kind && known.subject == event.subject
}

fn is_same(known: &RecordedEvent, event: &RecordedEvent) -> bool {
    is_similar(known, event) && known.message == event.message
}

fn tell(event: &RecordedEvent) {
    let (pod, field) = match &event.subject {
        EventSubject::Pod { full_name, field_path, .. } => (full_name.to_string(), field_path.as_str()),
        EventSubject::Node(name) | EventSubject::Volume { name, .. } => (name.clone(), ""),
        EventSubject::Claim { namespace, name, .. } => (format!("{namespace}/{name}"), ""),
    };
    match event.kind {
        EventType::Normal => {
            tracing::info!(target: "podward::event", subject = %pod, field, reason = %event.reason, "{}", event.message);
        }
        EventType::Warning => {
            tracing::warn!(target: "podward::event", subject = %pod, field, reason = %event.reason, "{}", event.message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(log: &EventLog, reason: &str, message: &str, at: i64) {
        log.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Node("n".into()),
            kind: EventType::Normal,
            reason: reason.into(),
            message: message.into(),
            at: Timestamp::from_secs(at),
        });
    }

    #[test]
    fn the_oldest_event_goes_first() {
        let log = EventLog::new(2);
        for reason in ["a", "b", "c"] {
            record(&log, reason, "", 0);
        }
        let reasons: Vec<_> = log.all().into_iter().map(|series| series.event.reason).collect();
        assert_eq!(reasons, ["b", "c"]);
    }

    #[test]
    fn every_event_has_a_number_of_its_own() {
        let log = EventLog::new(10_000);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let log = &log;
                scope.spawn(move || {
                    for number in 0..500 {
                        record(log, &format!("{thread} {number}"), "", 0);
                    }
                });
            }
        });
        let numbers: Vec<u64> = log.all().into_iter().map(|series| series.sequence).collect();
        assert_eq!(numbers, (1..=2000).collect::<Vec<u64>>());
    }

    #[test]
    fn equal_events_are_counted_and_move_to_the_end() {
        let log = EventLog::new(5);
        record(&log, "BackOff", "m", 1);
        record(&log, "Pulled", "m", 2);
        record(&log, "BackOff", "m", 3);
        let all = log.all();
        assert_eq!(all.len(), 2);
        let last = all.last().unwrap();
        assert_eq!((last.event.reason.as_str(), last.count), ("BackOff", 2));
        assert_eq!((last.first_at, last.event.at), (Timestamp::from_secs(1), Timestamp::from_secs(3)));
    }

    #[test]
    fn a_flood_of_similar_events_becomes_one() {
        let log = EventLog::new(100);
        for at in 0..30 {
            record(&log, "Failed", &format!("try {at}"), at);
        }
        let all = log.all();
        assert_eq!(all.len(), 11);
        let last = all.last().unwrap();
        assert_eq!(last.event.message, "(combined from similar events): try 29");
        assert_eq!(last.count, 20);
        // Much later the same reason is news again.
        record(&log, "Failed", "another day", 5000);
        assert_eq!(log.all().last().unwrap().event.message, "another day");
    }
}
