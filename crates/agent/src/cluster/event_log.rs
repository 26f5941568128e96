//! The most recent events in memory: equal events are counted, and bursts of similar events are combined.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

use model::{EventSubject, EventType, RecordedEvent, Timestamp};
use ports::served::event_recorder::EventRecorder;
use tokio::sync::watch;

/// Number of events that differ only in their message before they are combined.
const MAX_SIMILAR: usize = 10;
/// Older events do not count as similar.
const SIMILARITY_WINDOW: Duration = Duration::from_secs(600);
/// Upstream's prefix of a message that stands for many.
const COMBINED_PREFIX: &str = "(combined from similar events): ";

/// An event and the number of its occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSeries {
    /// The latest occurrence.
    pub event: RecordedEvent,
    pub first_at: Timestamp,
    pub count: u32,
    /// Increases with every recorded event.
    pub sequence: u64,
}

/// A bounded store that drops the least recent event when it is full.
#[derive(Debug)]
pub struct EventLog {
    capacity: usize,
    events: Mutex<VecDeque<EventSeries>>,
    newest: watch::Sender<u64>,
}

impl EventLog {
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), events: Mutex::new(VecDeque::new()), newest: watch::Sender::new(0) }
    }

    /// The sequence number of the newest event.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// All events, the most recent one last.
    #[must_use]
    pub fn all(&self) -> Vec<EventSeries> {
        self.events.lock().iter().cloned().collect()
    }
}

impl EventRecorder for EventLog {
    fn record(&self, event: RecordedEvent) {
        log_event(&event);
        let mut events = self.events.lock();
        let mut series = take_series(&mut events, event);
        series.sequence = self.newest.borrow().saturating_add(1);
        let sequence = series.sequence;
        if events.len() == self.capacity {
            events.pop_front();
        }
        events.push_back(series);
        // Under the lock: the next call reads its sequence number from here.
        self.newest.send_replace(sequence);
    }
}

/// Removes the series that the event continues and returns it updated, or returns a new series.
fn take_series(events: &mut VecDeque<EventSeries>, mut event: RecordedEvent) -> EventSeries {
    let mut same = events.iter().rposition(|earlier| is_same(&earlier.event, &event));
    if same.is_none() {
        let recent = |earlier: &&EventSeries| event.at.since(earlier.event.at) <= SIMILARITY_WINDOW;
        let similar = |earlier: &&EventSeries| is_similar(&earlier.event, &event);
        if events.iter().filter(recent).filter(similar).count() >= MAX_SIMILAR {
            same = events.iter().rposition(|earlier| {
                is_similar(&earlier.event, &event) && earlier.event.message.starts_with(COMBINED_PREFIX)
            });
            event.message = format!("{COMBINED_PREFIX}{}", event.message);
        }
    }
    match same.and_then(|at| events.remove(at)) {
        Some(earlier) => EventSeries {
            event,
            first_at: earlier.first_at,
            count: earlier.count.saturating_add(1),
            sequence: 0,
        },
        None => EventSeries { first_at: event.at, event, count: 1, sequence: 0 },
    }
}

fn is_similar(earlier: &RecordedEvent, event: &RecordedEvent) -> bool {
    earlier.reason == event.reason && earlier.kind == event.kind && earlier.subject == event.subject
}

fn is_same(earlier: &RecordedEvent, event: &RecordedEvent) -> bool {
    is_similar(earlier, event) && earlier.message == event.message
}

fn log_event(event: &RecordedEvent) {
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
    fn drops_oldest_event_when_full() {
        let log = EventLog::new(2);
        for reason in ["a", "b", "c"] {
            record(&log, reason, "", 0);
        }
        let reasons: Vec<_> = log.all().into_iter().map(|series| series.event.reason).collect();
        assert_eq!(reasons, ["b", "c"]);
    }

    #[test]
    fn assigns_unique_sequence_numbers_across_threads() {
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
    fn counts_equal_events_and_moves_them_to_the_end() {
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
    fn combines_bursts_of_similar_events() {
        let log = EventLog::new(100);
        for at in 0..30 {
            record(&log, "Failed", &format!("try {at}"), at);
        }
        let all = log.all();
        assert_eq!(all.len(), 11);
        let last = all.last().unwrap();
        assert_eq!(last.event.message, "(combined from similar events): try 29");
        assert_eq!(last.count, 20);
        // After the window the same reason is not combined.
        record(&log, "Failed", "another day", 5000);
        assert_eq!(log.all().last().unwrap().event.message, "another day");
    }
}
