use model::{ContainerState, ContainerStatus, EventType, ProbeVerdict, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::test_objects::{container as seen, pod};

#[expect(clippy::needless_pass_by_value, reason = "tests write the spec in place")]
fn web(fields: serde_json::Value) -> Pod {
    let mut container = serde_json::json!({"name": "web", "image": "x",
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    pod(serde_json::json!({"containers": [container]}))
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the spec in place")]
fn asked(probe: serde_json::Value) -> Result<ProbeCheck, CheckError> {
    let pod = web(serde_json::json!({"livenessProbe": probe}));
    let container = &pod.spec.containers[0];
    check(container.liveness_probe.as_ref().unwrap(), container, "10.0.0.7")
}

#[test]
fn each_mechanism_asks_what_its_spec_says() {
    assert_eq!(
        asked(serde_json::json!({"exec": {"command": ["ls", "$(A)", "$(B)", "$(C)", "$$(A)"]}})),
        Ok(ProbeCheck::Exec { command: ["ls", "1", "", "$(C)", "$(A)"].map(str::to_owned).to_vec() })
    );
    assert_eq!(
        asked(serde_json::json!({"httpGet": {"port": "http", "path": "/x", "scheme": "HTTPS",
            "httpHeaders": [{"name": "a", "value": "b"}]}})),
        Ok(ProbeCheck::Http {
            tls: true,
            host: "10.0.0.7".into(),
            port: 8080,
            path: "/x".into(),
            headers: vec![("a".into(), "b".into())],
        })
    );
    assert_eq!(
        asked(serde_json::json!({"tcpSocket": {"port": "81", "host": "db"}})),
        Ok(ProbeCheck::Tcp { host: "db".into(), port: 81 })
    );
    assert_eq!(
        asked(serde_json::json!({"grpc": {"port": 9, "service": "s"}})),
        Ok(ProbeCheck::Grpc { host: "10.0.0.7".into(), port: 9, service: "s".into() })
    );
}

#[test]
fn ports_that_are_none_are_named() {
    let error =
        |port: serde_json::Value| asked(serde_json::json!({"tcpSocket": {"port": port}})).unwrap_err().0;
    assert_eq!(error(serde_json::json!("web")), "strconv.Atoi: parsing \"web\": invalid syntax");
    assert_eq!(error(serde_json::json!(70000)), "invalid port number: 70000");
}

#[test]
fn only_regular_containers_and_sidecars_are_probed() {
    let probe = serde_json::json!({"exec": {"command": ["true"]}});
    let pod = pod(serde_json::json!({
        "initContainers": [
            {"name": "init", "image": "x", "livenessProbe": probe},
            {"name": "side", "image": "x", "restartPolicy": "Always", "startupProbe": probe, "readinessProbe": probe}],
        "containers": [{"name": "main", "image": "x", "livenessProbe": probe}]}));
    let found: Vec<_> = probes(&pod).map(|(entry, kind)| (entry.container.name.as_str(), kind)).collect();
    assert_eq!(
        found,
        [("side", ProbeKind::Startup), ("side", ProbeKind::Readiness), ("main", ProbeKind::Liveness)]
    );
}

#[test]
fn statuses_from_200_to_399_are_healthy() {
    assert_eq!(http_finding(200, b"x"), Finding::Success);
    assert_eq!(http_finding(299, b"x"), Finding::Success);
    assert_eq!(
        http_finding(302, b"away"),
        Finding::Warning("Probe terminated redirects, Response body: away".into())
    );
    for status in [199, 400, 404, 503] {
        let text = format!("HTTP probe failed with statuscode: {status}");
        assert_eq!(http_finding(status, b"secret"), Finding::Failure(text));
    }
}

#[test]
fn a_command_is_judged_by_its_code_and_shown_by_its_output() {
    assert_eq!(exec_finding(0, b"out", b""), Finding::Success);
    assert_eq!(exec_finding(3, b"out", b"err"), Finding::Failure("outerr".into()));
    let Finding::Failure(text) = exec_finding(1, &[b'x'; 20_000], b"") else { panic!("healthy") };
    assert_eq!(text.len(), 10 * 1024);
    assert_eq!(
        exec_timeout_finding(&["sleep".into(), "9".into()], Duration::from_secs(61)),
        Finding::Failure("command timed out: \"sleep 9\" timed out after 1m1s".into())
    );
}

#[test]
fn events_read_like_upstreams() {
    let event = |finding: Finding| finding.event(ProbeKind::Liveness);
    assert_eq!(event(Finding::Success), None);
    assert_eq!(
        event(Finding::Failure("no".into())),
        Some((EventType::Warning, "Unhealthy", "Liveness probe failed: no".into()))
    );
    assert_eq!(
        event(Finding::Warning("hm".into())),
        Some((EventType::Warning, "ProbeWarning", "Liveness probe warning: hm".into()))
    );
    assert_eq!(
        event(Finding::Error { result: "unknown", message: "why".into() }),
        Some((
            EventType::Warning,
            "Unhealthy",
            "Liveness probe errored and resulted in unknown state: why".into()
        ))
    );
}

fn terms(success: u32, failure: u32) -> Terms {
    let second = Duration::from_secs(1);
    Terms {
        initial_delay: second * 5,
        period: second * 10,
        timeout: second,
        success_threshold: success,
        failure_threshold: failure,
    }
}

fn running() -> ContainerStatus {
    ContainerStatus {
        started_at: Timestamp::from_secs(1000),
        ..seen("c1", "web", 0, ContainerState::Running)
    }
}

/// The verdict after each finding: `+` healthy, `-` not, `?` could not be asked.
fn verdicts(kind: ProbeKind, terms: &Terms, findings: &str) -> String {
    let mut state = ProbeState::new(&running());
    let mut shown = String::new();
    for finding in findings.chars() {
        let finding = match finding {
            '+' => Finding::Success,
            '-' => Finding::Failure(String::new()),
            _ => Finding::Error { result: "unknown", message: String::new() },
        };
        let before = state.verdict;
        let changed = state.record(kind, terms, &finding);
        assert_eq!(changed, before != state.verdict);
        shown.push(match state.verdict {
            None => '.',
            Some(ProbeVerdict::Success) => '+',
            Some(ProbeVerdict::Failure) => '-',
        });
    }
    shown
}

#[test]
fn verdicts_change_at_their_thresholds() {
    let check = |success, failure, findings: &str, expected: &str| {
        let found = verdicts(ProbeKind::Readiness, &terms(success, failure), findings);
        assert_eq!(found, expected, "{findings}");
    };
    check(1, 3, "+--+---", "++++++-");
    check(2, 2, "+-++--+", "...++--");
    check(1, 1, "-+-+", "-+-+");
    // What could not be asked neither counts nor breaks a row.
    check(1, 2, "+-?-", "+++-");
}

#[test]
fn a_startup_probe_fails_after_its_whole_time_and_succeeds_at_once() {
    let terms = terms(1, 2);
    let asked = |seconds: i64, finding: Finding, state: &mut ProbeState| {
        state.last_check = Some(Timestamp::from_secs(1000 + seconds));
        state.record(ProbeKind::Startup, &terms, &finding);
        state.verdict
    };
    let failure = || Finding::Failure(String::new());
    let mut slow = ProbeState::new(&running());
    // Started at 0, delay 5, period 10: the check at 5 is extra, those at 15 and 25 count.
    for (seconds, verdict) in [(5, None), (14, None), (15, None), (25, Some(ProbeVerdict::Failure))] {
        assert_eq!(asked(seconds, failure(), &mut slow), verdict, "{seconds}");
    }
    let mut quick = ProbeState::new(&running());
    assert_eq!(asked(5, Finding::Success, &mut quick), Some(ProbeVerdict::Success));
    let mut other = ProbeState::new(&running());
    other.last_check = Some(Timestamp::from_secs(1005));
    assert!(!other.is_early(ProbeKind::Liveness, &terms) && !other.is_early(ProbeKind::Readiness, &terms));
}

#[test]
fn final_verdicts_end_the_asking() {
    for (kind, finding, held) in [
        (ProbeKind::Liveness, Finding::Success, false),
        (ProbeKind::Liveness, Finding::Failure(String::new()), true),
        (ProbeKind::Startup, Finding::Success, true),
        (ProbeKind::Startup, Finding::Failure(String::new()), true),
        (ProbeKind::Readiness, Finding::Failure(String::new()), false),
    ] {
        let mut state = ProbeState::new(&running());
        state.record(kind, &terms(1, 1), &finding);
        assert_eq!(state.is_on_hold(), held, "{kind:?} {finding:?}");
        let verdict = finding.verdict().unwrap();
        assert_eq!(ProbeState::judged(&running(), kind, verdict).is_on_hold(), held);
    }
}

fn situation<'a>(
    kind: ProbeKind,
    terms: &'a Terms,
    state: &'a ProbeState,
    status: &'a ContainerStatus,
) -> Situation<'a> {
    let now = Timestamp::from_secs(1000);
    Situation { kind, terms, state, status, startup: None, terminating: false, sidecar: false, now }
}

#[test]
fn startup_and_readiness_begin_right_after_the_delay() {
    let (terms, state, status) = (terms(1, 3), ProbeState::new(&running()), running());
    for kind in [ProbeKind::Startup, ProbeKind::Readiness] {
        let fresh = situation(kind, &terms, &state, &status);
        assert_eq!(next(&fresh), Next::In(Duration::from_secs(5)));
        let late = Situation { now: Timestamp::from_secs(2000), ..fresh };
        assert_eq!(next(&late), Next::In(Duration::ZERO));
    }
}

#[test]
fn nothing_is_asked_of_a_container_that_does_not_run() {
    let (terms, state) = (terms(1, 3), ProbeState::new(&running()));
    let ended = ContainerStatus { state: ContainerState::Exited, ..running() };
    let other = ContainerStatus { id: "c2".into(), ..running() };
    for status in [&ended, &other] {
        assert_eq!(next(&situation(ProbeKind::Readiness, &terms, &state, status)), Next::Wait);
    }
}

#[test]
fn the_startup_probe_holds_the_others_back() {
    let (terms, state, status) = (terms(1, 3), ProbeState::new(&running()), running());
    for kind in [ProbeKind::Liveness, ProbeKind::Readiness] {
        for startup in [None, Some(ProbeVerdict::Failure)] {
            let held = Situation { startup: Some(startup), ..situation(kind, &terms, &state, &status) };
            assert_eq!(next(&held), Next::Wait);
        }
        let started = Situation {
            startup: Some(Some(ProbeVerdict::Success)),
            ..situation(kind, &terms, &state, &status)
        };
        assert_ne!(next(&started), Next::Wait);
    }
    let own = Situation { startup: Some(None), ..situation(ProbeKind::Startup, &terms, &state, &status) };
    assert_ne!(next(&own), Next::Wait);
}

#[test]
fn termination_ends_liveness_and_startup_of_regular_containers() {
    let (terms, state, status) = (terms(1, 3), ProbeState::new(&running()), running());
    let ending = |kind| Situation { terminating: true, ..situation(kind, &terms, &state, &status) };
    assert_eq!(next(&ending(ProbeKind::Liveness)), Next::Wait);
    assert_eq!(next(&ending(ProbeKind::Startup)), Next::Wait);
    assert_ne!(next(&ending(ProbeKind::Readiness)), Next::Wait);
    assert_ne!(next(&Situation { sidecar: true, ..ending(ProbeKind::Liveness) }), Next::Wait);
}

#[test]
fn a_clock_set_back_stops_no_probe() {
    let (terms, status) = (terms(1, 3), running());
    let mut state = ProbeState::new(&running());
    state.last_check = Some(Timestamp::from_secs(900_000));
    state.verdict = Some(ProbeVerdict::Success);
    let back = Situation {
        now: Timestamp::from_secs(10),
        ..situation(ProbeKind::Liveness, &terms, &state, &status)
    };
    let Next::In(wait) = next(&back) else { panic!("waits for ever") };
    assert!(wait <= Duration::from_secs(25), "{wait:?}");
}

#[test]
fn without_a_checkpoint_the_last_report_counts() {
    let mut pod = web(serde_json::json!({}));
    pod.status = serde_json::from_value(serde_json::json!({
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "web", "containerID": "containerd://c1", "started": true, "ready": true,
            "image": "", "imageID": "", "restartCount": 0}]}))
    .unwrap();
    let kept = |kind, pod: &Pod, agent| {
        kept_over_restart(kind, pod, &pod.spec.containers[0], &running(), Timestamp::from_secs(agent))
    };
    let good = Some(ProbeVerdict::Success);
    assert_eq!(kept(ProbeKind::Readiness, &pod, 1011), good);
    assert_eq!(kept(ProbeKind::Startup, &pod, 1011), good);
    assert_eq!(kept(ProbeKind::Liveness, &pod, 1011), None);
    // Started under this agent.
    assert_eq!(kept(ProbeKind::Readiness, &pod, 1010), None);
    // Another container, or nothing known.
    let silent = web(serde_json::json!({}));
    assert_eq!(kept(ProbeKind::Readiness, &silent, 1011), None);
    pod.status.container_statuses.as_mut().unwrap()[0].container_id = Some("containerd://c0".into());
    assert_eq!(kept(ProbeKind::Startup, &pod, 1011), None);
}

proptest! {
    /// Checks of a healthy container lie on a grid of its own: exactly one period apart, the same for an agent that
    /// starts in between, never before the initial delay.
    #[test]
    fn healthy_containers_are_asked_once_a_period(
        id in "[0-9a-f]{12}",
        period in 1u32..60,
        delay in 0u32..30,
        now in 0i64..5000,
        liveness in any::<bool>(),
    ) {
        let kind = if liveness { ProbeKind::Liveness } else { ProbeKind::Readiness };
        let second = Duration::from_secs(1);
        let terms = Terms { initial_delay: second * delay, period: second * period, ..terms(1, 3) };
        let started_at = Timestamp::from_secs(1000);
        let status = ContainerStatus { id: id.as_str().into(), started_at, ..running() };
        let fresh = ProbeState::judged(&status, kind, ProbeVerdict::Success);
        let at = |state: &ProbeState, now: Timestamp| {
            match next(&Situation { now, ..situation(kind, &terms, state, &status) }) {
                Next::In(wait) => now.after(wait),
                Next::Wait => panic!("waits"),
            }
        };
        let now = Timestamp::from_secs(1000 + now);
        let first = at(&fresh, now);
        prop_assert!(first >= started_at.after(terms.initial_delay));
        let asked = |last| {
            let mut state = fresh.clone();
            state.last_check = Some(last);
            state
        };
        let second = at(&asked(first), first);
        prop_assert_eq!(second.since(first), terms.period);
        let third = at(&asked(second), second);
        prop_assert_eq!(third.since(second), terms.period);
        // A check that began late does not move the grid.
        let late = second.after(terms.period / 3);
        prop_assert_eq!(at(&asked(late), late), third);
        // Another agent finds the same grid.
        prop_assert_eq!(at(&fresh, second.after(Duration::from_millis(1))), third);
    }

    /// Whatever was found, a verdict never changes before its threshold was reached in a row.
    #[test]
    fn verdicts_need_their_rows(findings in "[+-]{1,20}", success in 1u32..4, failure in 1u32..4) {
        let shown = verdicts(ProbeKind::Readiness, &terms(success, failure), &findings);
        let pairs: Vec<(char, char)> = shown.chars().zip(findings.chars()).collect();
        for (at, (verdict, _)) in pairs.iter().enumerate() {
            let before = at.checked_sub(1).map_or('.', |before| pairs[before].0);
            if *verdict != before {
                let needed = if *verdict == '+' { success } else { failure } as usize;
                let row = findings[..=at].chars().rev().take_while(|found| found == verdict).count();
                prop_assert!(row >= needed, "{} -> {}", findings, shown);
            }
        }
    }
}
