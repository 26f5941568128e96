use serde_json::json;

use super::*;

fn pod() -> Pod {
    serde_json::from_value(json!({"metadata": {"namespace": "default", "name": "web-node-a"}})).unwrap()
}

fn answer() -> Value {
    let at = |millis: u64| format!("2026-01-01T00:00:00.{millis:03}Z");
    let step = |name: &str, container: Option<&str>, from: u64, until: u64| {
        json!({"step": name, "container": container, "startedAt": at(from), "finishedAt": at(until),
            "succeeded": true, "count": 1})
    };
    json!({
        "seenAt": at(0), "acceptedAt": at(2), "readyAt": at(400), "ranBefore": false,
        "steps": [step("volumes", None, 2, 4), step("image", Some("main"), 4, 14), step("sandbox", None, 4, 200),
            step("create", Some("main"), 200, 250), step("start", Some("main"), 250, 350),
            step("firstProbe", Some("main"), 350, 390)],
    })
}

#[test]
fn without_a_terminal_it_is_a_plain_table() {
    let expected = "\
Pod:        default/web-node-a
Seen:       2026-01-01T00:00:00Z
Ready:      after 0.40s

STEP          CONTAINER   FROM    TOOK
accepted                  0ms     2ms
volumes                   2ms     2ms
image         main        4ms     10ms
sandbox                   4ms     0.20s
create        main        0.20s   50ms
start         main        0.25s   0.10s
first probe   main        0.35s   40ms
ready                     0.40s
";
    assert_eq!(text(&answer(), &pod(), None), expected);
}

#[test]
fn bars_fill_the_terminal_and_no_more() {
    let shown = text(&answer(), &pod(), Some(80));
    let bars: Vec<&str> = shown.lines().filter(|line| line.contains('|')).collect();
    assert_eq!(bars.len(), 8);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let place = |line: &str| line.split('|').nth(1).unwrap().to_owned();
    let sandbox = place(bars[3]);
    let full = sandbox.chars().filter(|letter| *letter == '█').count();
    assert_eq!(full, sandbox.chars().count() / 2, "196 of 400 ms are half of it: {sandbox:?}");
    assert!(place(bars[7]).trim_end().ends_with('▎'), "{:?}", bars[7]);
    assert!(!text(&answer(), &pod(), Some(40)).contains('|'), "no room for bars");
}

#[test]
fn the_smallest_step_still_shows() {
    for line in text(&answer(), &pod(), Some(100)).lines().filter(|line| line.contains('|')) {
        assert!(line.split('|').nth(1).unwrap().contains(|letter: char| letter != ' '), "{line}");
    }
}

#[test]
fn failures_and_restarts_are_told() {
    let mut answer = answer();
    answer["steps"][4]["count"] = json!(3);
    answer["steps"][4]["last"] = json!({"startedAt": "2026-01-01T00:05:00Z"});
    answer["steps"][1]["succeeded"] = json!(false);
    answer["steps"][3]["finishedAt"] = json!(null);
    answer["readyAt"] = json!(null);
    let shown = text(&answer, &pod(), None);
    assert!(shown.contains("Ready:      not yet"), "{shown}");
    assert!(shown.contains("failed"), "{shown}");
    assert!(shown.contains("under way"), "{shown}");
    assert!(shown.contains("Container main was started 3 times, last at 2026-01-01T00:05:00Z"), "{shown}");
}

#[test]
fn a_pod_of_an_earlier_agent_has_no_start() {
    let answer = json!({"seenAt": "2026-01-01T00:00:00Z", "acceptedAt": "2026-01-01T00:00:00Z",
        "readyAt": "2026-01-01T00:00:00Z", "ranBefore": true, "steps": []});
    assert!(text(&answer, &pod(), None).contains("ran already when this agent started"));
}

#[test]
fn durations_are_short() {
    for (millis, shown) in [(0, "0ms"), (99, "99ms"), (420, "0.42s"), (12_300, "12.3s"), (250_000, "4m10s")] {
        assert_eq!(short(Duration::from_millis(millis)), shown);
    }
}
