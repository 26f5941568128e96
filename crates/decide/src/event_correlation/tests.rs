use model::{EventType, PodFullName};

use super::*;

fn event(pod: &str, reason: &str, message: &str, at: i64) -> RecordedEvent {
    RecordedEvent {
        annotations: Default::default(),
        subject: EventSubject::Pod {
            uid: pod.into(),
            full_name: PodFullName { namespace: "ns".into(), name: pod.into() },
            field_path: "spec.containers{c}".into(),
        },
        kind: EventType::Warning,
        reason: reason.into(),
        message: message.into(),
        at: Timestamp::from_secs(at),
    }
}

#[test]
fn equal_events_are_counted() {
    let mut correlator = EventCorrelator::default();
    let first = correlator.observe(event("p", "BackOff", "m", 16)).unwrap();
    let other = correlator.observe(event("p", "BackOff", "n", 17)).unwrap();
    let again = correlator.observe(event("p", "BackOff", "m", 20)).unwrap();
    assert_eq!((first.count, other.count, again.count), (1, 1, 2));
    assert_eq!(first.name, "p.3b9aca000", "object and time in nanoseconds");
    assert_eq!((&again.name, &again.key), (&first.name, &first.key));
    assert_ne!(other.name, first.name);
    assert_eq!((again.first_at, again.event.at), (Timestamp::from_secs(16), Timestamp::from_secs(20)));
}

#[test]
fn aggregates_from_tenth_different_message() {
    let mut correlator = EventCorrelator::default();
    let mut written = Vec::new();
    for at in 0..12 {
        written.push(correlator.observe(event("p", "Failed", &format!("try {at}"), at)).unwrap());
    }
    assert_eq!(written[8].event.message, "try 8");
    assert_eq!(
        (written[9].event.message.as_str(), written[9].count),
        ("(combined from similar events): try 9", 1)
    );
    assert_eq!(
        (written[11].event.message.as_str(), written[11].count),
        ("(combined from similar events): try 11", 3)
    );
    assert_eq!(written[11].name, written[9].name);
    // Aggregation ends after ten minutes without events; other reasons and objects are not affected.
    assert_eq!(correlator.observe(event("p", "Failed", "new", 612)).unwrap().event.message, "new");
    assert_eq!(correlator.observe(event("p", "Other", "try 1", 12)).unwrap().event.message, "try 1");
    assert_eq!(correlator.observe(event("q", "Failed", "try 1", 12)).unwrap().event.message, "try 1");
}

#[test]
fn rate_limited_events_are_still_counted() {
    let mut correlator = EventCorrelator::default();
    let written = (0..40).filter(|_| correlator.observe(event("p", "BackOff", "m", 0)).is_some()).count();
    assert_eq!(written, 25);
    assert!(correlator.observe(event("q", "BackOff", "m", 0)).is_some(), "another object is not limited");
    assert!(correlator.observe(event("p", "BackOff", "m", 299)).is_none());
    let next = correlator.observe(event("p", "BackOff", "m", 301)).unwrap();
    assert_eq!(next.count, 42);
    assert!(correlator.observe(event("p", "BackOff", "m", 302)).is_none());
}
