use model::local_api::TimelineSpan;

use super::*;

const START: Timestamp = Timestamp::from_secs(1_767_225_600);

fn after(millis: u64) -> Timestamp {
    START.after(Duration::from_millis(millis))
}

fn timeline() -> Timeline {
    let step = |step: StartStep, container: Option<&str>, from: u64, until: u64| TimelineStep {
        container: container.map(str::to_owned),
        count: 1,
        finished_at: Some(after(until)),
        last: None,
        milliseconds: None,
        started_at: after(from),
        step,
        succeeded: true,
    };
    Timeline {
        accepted_at: after(2),
        namespace: "default".to_owned(),
        pod: "web-node-a".to_owned(),
        ran_before: false,
        ready_at: Some(after(400)),
        seen_at: START,
        steps: vec![
            step(StartStep::Volumes, None, 2, 4),
            step(StartStep::Image, Some("main"), 4, 14),
            step(StartStep::Sandbox, None, 4, 200),
            step(StartStep::Create, Some("main"), 200, 250),
            step(StartStep::Start, Some("main"), 250, 350),
            step(StartStep::FirstProbe, Some("main"), 350, 390),
        ],
        uid: "u".to_owned(),
    }
}

#[test]
fn prints_plain_table_without_terminal() {
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
    assert_eq!(text(&timeline(), None), expected);
}

#[test]
fn bars_fit_into_terminal() {
    let output = text(&timeline(), Some(80));
    let bars: Vec<&str> = output.lines().filter(|line| line.contains('|')).collect();
    assert_eq!(bars.len(), 8);
    assert!(output.lines().all(|line| line.chars().count() <= 80), "{output}");
    let bar = |line: &str| line.split('|').nth(1).unwrap().to_owned();
    let sandbox = bar(bars[3]);
    let full = sandbox.chars().filter(|letter| *letter == '█').count();
    assert_eq!(full, sandbox.chars().count() / 2, "196 of 400 ms are half of it: {sandbox:?}");
    assert!(bar(bars[7]).trim_end().ends_with('▎'), "{:?}", bars[7]);
    assert!(!text(&timeline(), Some(40)).contains('|'), "no space for bars");
}

#[test]
fn shortest_step_is_visible() {
    for line in text(&timeline(), Some(100)).lines().filter(|line| line.contains('|')) {
        assert!(line.split('|').nth(1).unwrap().contains(|letter: char| letter != ' '), "{line}");
    }
}

#[test]
fn prints_failures_and_restarts() {
    let mut timeline = timeline();
    timeline.steps[4].count = 3;
    timeline.steps[4].last = Some(TimelineSpan {
        finished_at: None,
        milliseconds: None,
        started_at: after(5 * 60 * 1000),
        succeeded: false,
    });
    timeline.steps[1].succeeded = false;
    timeline.steps[3].finished_at = None;
    timeline.ready_at = None;
    let output = text(&timeline, None);
    assert!(output.contains("Ready:      not yet"), "{output}");
    assert!(output.contains("failed"), "{output}");
    assert!(output.contains("under way"), "{output}");
    assert!(output.contains("Container main was started 3 times, last at 2026-01-01T00:05:00Z"), "{output}");
}

#[test]
fn adopted_pod_has_no_steps() {
    let timeline = Timeline { ready_at: Some(START), ran_before: true, steps: Vec::new(), ..timeline() };
    assert!(text(&timeline, None).contains("ran already when this agent started"));
}

#[test]
fn formats_durations() {
    for (millis, output) in [(0, "0ms"), (99, "99ms"), (420, "0.42s"), (12_300, "12.3s"), (250_000, "4m10s")]
    {
        assert_eq!(short(Duration::from_millis(millis)), output);
    }
}
