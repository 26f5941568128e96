use serde::de::DeserializeOwned;
use serde_json::json;

use super::*;

const TIME: Timestamp = Timestamp::from_nanos(1_767_225_600_500_000_000);
const SHOWN_TIME: &str = "2026-01-01T00:00:00.5Z";

fn check<T>(typed: &T, document: Value)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    assert_eq!(serde_json::to_value(typed).unwrap(), document);
    assert_eq!(&serde_json::from_value::<T>(document).unwrap(), typed);
}

#[test]
fn source_list_round_trips() {
    let source = SourceReport {
        location: "http://h/".to_owned(),
        pods: 2,
        problem: None,
        since: TIME,
        source: PodSource::Http,
        state: SourceState::Good,
    };
    let file = FileReport {
        path: "/m/a.yaml".into(),
        state: FileState::LastGoodVersion,
        problems: vec!["line 3: x".to_owned()],
        warnings: Vec::new(),
        pods: vec!["default/a".to_owned()],
        objects: Vec::new(),
        since: TIME,
    };
    check(
        &SourceList { files: vec![file], sources: vec![source] },
        json!({
            "kind": "SourceList",
            "sources": [{"source": "http", "place": "http://h/", "state": "Good", "problem": null, "pods": 2,
                "since": SHOWN_TIME}],
            "files": [{"path": "/m/a.yaml", "state": "lastGoodVersion", "problems": ["line 3: x"], "warnings": [],
                "pods": ["default/a"], "objects": [], "since": SHOWN_TIME}],
        }),
    );
}

#[test]
fn explanation_round_trips() {
    let explanation = PodExplanation {
        causes: vec!["not found".to_owned()],
        namespace: "default".to_owned(),
        next_try: None,
        now: TIME,
        pod: "web".to_owned(),
        sentence: "Pod default/web is not ready.".to_owned(),
        uid: "u".to_owned(),
        verdict: "Blocked".to_owned(),
    };
    let document = json!({"namespace": "default", "pod": "web", "uid": "u", "verdict": "Blocked",
        "sentence": "Pod default/web is not ready.", "causes": ["not found"], "nextTry": null, "now": SHOWN_TIME});
    check(&explanation, document.clone());
    let mut with_next_try = document;
    with_next_try["nextTry"] = json!(SHOWN_TIME);
    check(&PodExplanation { next_try: Some(TIME), ..explanation }, with_next_try);
}

#[test]
fn timeline_round_trips() {
    let span = TimelineSpan { finished_at: None, milliseconds: None, started_at: TIME, succeeded: false };
    let repeated = TimelineStep {
        container: Some("main".to_owned()),
        count: 2,
        finished_at: Some(TIME),
        last: Some(span),
        milliseconds: Some(1.5),
        started_at: TIME,
        step: StartStep::FirstProbe,
        succeeded: true,
    };
    let single = TimelineStep { container: None, last: None, step: StartStep::Volumes, ..repeated.clone() };
    let timeline = Timeline {
        accepted_at: TIME,
        namespace: "default".to_owned(),
        pod: "web".to_owned(),
        ran_before: false,
        ready_at: None,
        seen_at: TIME,
        steps: vec![repeated, single],
        uid: "u".to_owned(),
    };
    check(
        &TimelineList { items: vec![timeline] },
        json!({"kind": "TimelineList", "items": [{
            "namespace": "default", "pod": "web", "uid": "u", "seenAt": SHOWN_TIME, "acceptedAt": SHOWN_TIME,
            "readyAt": null, "ranBefore": false,
            "steps": [
                {"step": "firstProbe", "container": "main", "count": 2, "startedAt": SHOWN_TIME,
                 "finishedAt": SHOWN_TIME, "milliseconds": 1.5, "succeeded": true,
                 "last": {"startedAt": SHOWN_TIME, "finishedAt": null, "milliseconds": null, "succeeded": false}},
                {"step": "volumes", "count": 2, "startedAt": SHOWN_TIME, "finishedAt": SHOWN_TIME,
                 "milliseconds": 1.5, "succeeded": true},
            ],
        }]}),
    );
}

#[test]
fn watch_events_round_trip() {
    let added = WatchEvent { object: Some("x".to_owned()), kind: WatchEventKind::Added };
    check(&added, json!({"type": "ADDED", "object": "x"}));
    let bookmark: WatchEvent<String> = WatchEvent { object: None, kind: WatchEventKind::Bookmark };
    check(&bookmark, json!({"type": "BOOKMARK", "object": null}));
}
