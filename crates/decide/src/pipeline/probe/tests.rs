use model::{ContainerState, ContainerStatus, EventType, ProbeResult, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::test_objects::{container, pod};

#[expect(clippy::needless_pass_by_value, reason = "tests write the spec in place")]
fn web(fields: serde_json::Value) -> Pod {
    let mut container = serde_json::json!({"name": "web", "image": "x",
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    pod(serde_json::json!({"containers": [container]}))
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the spec in place")]
fn check_of(probe: serde_json::Value) -> Result<ProbeCheck, CheckError> {
    let pod = web(serde_json::json!({"livenessProbe": probe}));
    let container = &pod.spec.containers[0];
    build_check(container.liveness_probe.as_ref().unwrap(), container, "10.0.0.7")
}

#[test]
fn builds_check_for_each_handler() {
    assert_eq!(
        check_of(serde_json::json!({"exec": {"command": ["ls", "$(A)", "$(B)", "$(C)", "$$(A)"]}})),
        Ok(ProbeCheck::Exec { command: ["ls", "1", "", "$(C)", "$(A)"].map(str::to_owned).to_vec() })
    );
    assert_eq!(
        check_of(serde_json::json!({"httpGet": {"port": "http", "path": "/x", "scheme": "HTTPS",
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
        check_of(serde_json::json!({"tcpSocket": {"port": "81", "host": "db"}})),
        Ok(ProbeCheck::Tcp { host: "db".into(), port: 81 })
    );
    assert_eq!(
        check_of(serde_json::json!({"grpc": {"port": 9, "service": "s"}})),
        Ok(ProbeCheck::Grpc { host: "10.0.0.7".into(), port: 9, service: "s".into() })
    );
}

#[test]
fn rejects_invalid_and_unknown_ports() {
    let error =
        |port: serde_json::Value| check_of(serde_json::json!({"tcpSocket": {"port": port}})).unwrap_err().0;
    assert_eq!(error(serde_json::json!("web")), "strconv.Atoi: parsing \"web\": invalid syntax");
    assert_eq!(error(serde_json::json!(70000)), "invalid port number: 70000");
}

#[test]
fn probes_only_regular_containers_and_sidecars() {
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
fn http_status_200_to_399_is_success() {
    assert_eq!(http_outcome(200, b"x"), CheckOutcome::Success);
    assert_eq!(http_outcome(299, b"x"), CheckOutcome::Success);
    assert_eq!(
        http_outcome(302, b"away"),
        CheckOutcome::Warning("Probe terminated redirects, Response body: away".into())
    );
    for status in [199, 400, 404, 503] {
        let text = format!("HTTP probe failed with statuscode: {status}");
        assert_eq!(http_outcome(status, b"secret"), CheckOutcome::Failure(text));
    }
}

#[test]
fn exec_outcome_follows_exit_code_and_shows_output() {
    assert_eq!(exec_outcome(0, b"out", b""), CheckOutcome::Success);
    assert_eq!(exec_outcome(3, b"out", b"err"), CheckOutcome::Failure("outerr".into()));
    let CheckOutcome::Failure(text) = exec_outcome(1, &[b'x'; 20_000], b"") else { panic!("healthy") };
    assert_eq!(text.len(), 10 * 1024);
    assert_eq!(
        exec_timeout_outcome(&["sleep".into(), "9".into()], Duration::from_secs(61)),
        CheckOutcome::Failure("command timed out: \"sleep 9\" timed out after 1m1s".into())
    );
}

#[test]
fn probe_events_match_upstream() {
    let event = |outcome: CheckOutcome| outcome.event(ProbeKind::Liveness);
    assert_eq!(event(CheckOutcome::Success), None);
    assert_eq!(
        event(CheckOutcome::Failure("no".into())),
        Some((EventType::Warning, "Unhealthy", "Liveness probe failed: no".into()))
    );
    assert_eq!(
        event(CheckOutcome::Warning("hm".into())),
        Some((EventType::Warning, "ProbeWarning", "Liveness probe warning: hm".into()))
    );
    assert_eq!(
        event(CheckOutcome::Error { result: "unknown", message: "why".into() }),
        Some((
            EventType::Warning,
            "Unhealthy",
            "Liveness probe errored and resulted in unknown state: why".into()
        ))
    );
}

fn settings(success: u32, failure: u32) -> ProbeSettings {
    let second = Duration::from_secs(1);
    ProbeSettings {
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
        ..container("c1", "web", 0, ContainerState::Running)
    }
}

/// The result after each outcome: `+` success, `-` failure, `?` error.
fn probe_results(kind: ProbeKind, settings: &ProbeSettings, outcomes: &str) -> String {
    let mut state = ProbeState::new(&running());
    let mut shown = String::new();
    for outcome in outcomes.chars() {
        let outcome = match outcome {
            '+' => CheckOutcome::Success,
            '-' => CheckOutcome::Failure(String::new()),
            _ => CheckOutcome::Error { result: "unknown", message: String::new() },
        };
        let before = state.result;
        let changed = state.record(kind, settings, &outcome);
        assert_eq!(changed, before != state.result);
        shown.push(match state.result {
            None => '.',
            Some(ProbeResult::Success) => '+',
            Some(ProbeResult::Failure) => '-',
        });
    }
    shown
}

#[test]
fn result_changes_at_threshold() {
    let check = |success, failure, outcomes: &str, expected: &str| {
        let found = probe_results(ProbeKind::Readiness, &settings(success, failure), outcomes);
        assert_eq!(found, expected, "{outcomes}");
    };
    check(1, 3, "+--+---", "++++++-");
    check(2, 2, "+-++--+", "...++--");
    check(1, 1, "-+-+", "-+-+");
    // An error neither counts nor interrupts a series.
    check(1, 2, "+-?-", "+++-");
}

#[test]
fn startup_probe_fails_after_full_time_and_succeeds_immediately() {
    let settings = settings(1, 2);
    let record = |seconds: i64, outcome: CheckOutcome, state: &mut ProbeState| {
        state.last_check = Some(Timestamp::from_secs(1000 + seconds));
        state.record(ProbeKind::Startup, &settings, &outcome);
        state.result
    };
    let failure = || CheckOutcome::Failure(String::new());
    let mut slow = ProbeState::new(&running());
    // Started at 0, delay 5, period 10: the check at 5 is extra, those at 15 and 25 count.
    for (seconds, result) in [(5, None), (14, None), (15, None), (25, Some(ProbeResult::Failure))] {
        assert_eq!(record(seconds, failure(), &mut slow), result, "{seconds}");
    }
    let mut quick = ProbeState::new(&running());
    assert_eq!(record(5, CheckOutcome::Success, &mut quick), Some(ProbeResult::Success));
    let mut other = ProbeState::new(&running());
    other.last_check = Some(Timestamp::from_secs(1005));
    assert!(
        !other.is_early(ProbeKind::Liveness, &settings) && !other.is_early(ProbeKind::Readiness, &settings)
    );
}

#[test]
fn final_result_puts_probe_on_hold() {
    for (kind, outcome, on_hold) in [
        (ProbeKind::Liveness, CheckOutcome::Success, false),
        (ProbeKind::Liveness, CheckOutcome::Failure(String::new()), true),
        (ProbeKind::Startup, CheckOutcome::Success, true),
        (ProbeKind::Startup, CheckOutcome::Failure(String::new()), true),
        (ProbeKind::Readiness, CheckOutcome::Failure(String::new()), false),
    ] {
        let mut state = ProbeState::new(&running());
        state.record(kind, &settings(1, 1), &outcome);
        assert_eq!(state.is_on_hold(), on_hold, "{kind:?} {outcome:?}");
        let result = outcome.result().unwrap();
        assert_eq!(ProbeState::with_result(&running(), kind, result).is_on_hold(), on_hold);
    }
}

fn inputs<'a>(
    kind: ProbeKind,
    settings: &'a ProbeSettings,
    state: &'a ProbeState,
    status: &'a ContainerStatus,
) -> ProbeScheduleInputs<'a> {
    let now = Timestamp::from_secs(1000);
    ProbeScheduleInputs {
        kind,
        settings,
        state,
        status,
        startup: None,
        terminating: false,
        sidecar: false,
        now,
    }
}

#[test]
fn startup_and_readiness_begin_right_after_initial_delay() {
    let (settings, state, status) = (settings(1, 3), ProbeState::new(&running()), running());
    for kind in [ProbeKind::Startup, ProbeKind::Readiness] {
        let fresh = inputs(kind, &settings, &state, &status);
        assert_eq!(next_check(&fresh), NextCheck::In(Duration::from_secs(5)));
        let late = ProbeScheduleInputs { now: Timestamp::from_secs(2000), ..fresh };
        assert_eq!(next_check(&late), NextCheck::In(Duration::ZERO));
    }
}

#[test]
fn does_not_check_container_that_does_not_run() {
    let (settings, state) = (settings(1, 3), ProbeState::new(&running()));
    let exited = ContainerStatus { state: ContainerState::Exited, ..running() };
    let other = ContainerStatus { id: "c2".into(), ..running() };
    for status in [&exited, &other] {
        assert_eq!(next_check(&inputs(ProbeKind::Readiness, &settings, &state, status)), NextCheck::Wait);
    }
}

#[test]
fn other_probes_wait_for_startup_probe() {
    let (settings, state, status) = (settings(1, 3), ProbeState::new(&running()), running());
    for kind in [ProbeKind::Liveness, ProbeKind::Readiness] {
        for startup in [None, Some(ProbeResult::Failure)] {
            let waiting =
                ProbeScheduleInputs { startup: Some(startup), ..inputs(kind, &settings, &state, &status) };
            assert_eq!(next_check(&waiting), NextCheck::Wait);
        }
        let started = ProbeScheduleInputs {
            startup: Some(Some(ProbeResult::Success)),
            ..inputs(kind, &settings, &state, &status)
        };
        assert_ne!(next_check(&started), NextCheck::Wait);
    }
    let own =
        ProbeScheduleInputs { startup: Some(None), ..inputs(ProbeKind::Startup, &settings, &state, &status) };
    assert_ne!(next_check(&own), NextCheck::Wait);
}

#[test]
fn termination_ends_liveness_and_startup_probes_of_regular_containers() {
    let (settings, state, status) = (settings(1, 3), ProbeState::new(&running()), running());
    let terminating =
        |kind| ProbeScheduleInputs { terminating: true, ..inputs(kind, &settings, &state, &status) };
    assert_eq!(next_check(&terminating(ProbeKind::Liveness)), NextCheck::Wait);
    assert_eq!(next_check(&terminating(ProbeKind::Startup)), NextCheck::Wait);
    assert_ne!(next_check(&terminating(ProbeKind::Readiness)), NextCheck::Wait);
    assert_ne!(
        next_check(&ProbeScheduleInputs { sidecar: true, ..terminating(ProbeKind::Liveness) }),
        NextCheck::Wait
    );
}

#[test]
fn clock_set_back_does_not_stop_probes() {
    let (settings, status) = (settings(1, 3), running());
    let mut state = ProbeState::new(&running());
    state.last_check = Some(Timestamp::from_secs(900_000));
    state.result = Some(ProbeResult::Success);
    let back = ProbeScheduleInputs {
        now: Timestamp::from_secs(10),
        ..inputs(ProbeKind::Liveness, &settings, &state, &status)
    };
    let NextCheck::In(wait) = next_check(&back) else { panic!("no next check") };
    assert!(wait <= Duration::from_secs(25), "{wait:?}");
}

#[test]
fn restores_result_from_reported_status_without_checkpoint() {
    let mut pod = web(serde_json::json!({}));
    pod.status = serde_json::from_value(serde_json::json!({
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "web", "containerID": "containerd://c1", "started": true, "ready": true,
            "image": "", "imageID": "", "restartCount": 0}]}))
    .unwrap();
    let restored = |kind, pod: &Pod, agent| {
        restored_result(kind, pod, &pod.spec.containers[0], &running(), Timestamp::from_secs(agent))
    };
    let good = Some(ProbeResult::Success);
    assert_eq!(restored(ProbeKind::Readiness, &pod, 1011), good);
    assert_eq!(restored(ProbeKind::Startup, &pod, 1011), good);
    assert_eq!(restored(ProbeKind::Liveness, &pod, 1011), None);
    // Started by this agent.
    assert_eq!(restored(ProbeKind::Readiness, &pod, 1010), None);
    // No reported status, or that of another container.
    let unreported = web(serde_json::json!({}));
    assert_eq!(restored(ProbeKind::Readiness, &unreported, 1011), None);
    pod.status.container_statuses.as_mut().unwrap()[0].container_id = Some("containerd://c0".into());
    assert_eq!(restored(ProbeKind::Startup, &pod, 1011), None);
}

proptest! {
    /// Checks of a healthy container are exactly one period apart and never before the initial delay, also if the agent is
    /// restarted in between.
    #[test]
    fn checks_healthy_container_once_per_period(
        id in "[0-9a-f]{12}",
        period in 1u32..60,
        delay in 0u32..30,
        now in 0i64..5000,
        liveness in any::<bool>(),
    ) {
        let kind = if liveness { ProbeKind::Liveness } else { ProbeKind::Readiness };
        let second = Duration::from_secs(1);
        let settings = ProbeSettings { initial_delay: second * delay, period: second * period, ..settings(1, 3) };
        let started_at = Timestamp::from_secs(1000);
        let status = ContainerStatus { id: id.as_str().into(), started_at, ..running() };
        let fresh = ProbeState::with_result(&status, kind, ProbeResult::Success);
        let at = |state: &ProbeState, now: Timestamp| {
            match next_check(&ProbeScheduleInputs { now, ..inputs(kind, &settings, state, &status) }) {
                NextCheck::In(wait) => now.after(wait),
                NextCheck::Wait => panic!("waits"),
            }
        };
        let now = Timestamp::from_secs(1000 + now);
        let first = at(&fresh, now);
        prop_assert!(first >= started_at.after(settings.initial_delay));
        let checked_at = |last| {
            let mut state = fresh.clone();
            state.last_check = Some(last);
            state
        };
        let second = at(&checked_at(first), first);
        prop_assert_eq!(second.since(first), settings.period);
        let third = at(&checked_at(second), second);
        prop_assert_eq!(third.since(second), settings.period);
        // A check that began late does not move the grid.
        let late = second.after(settings.period / 3);
        prop_assert_eq!(at(&checked_at(late), late), third);
        // A restarted agent uses the same grid.
        prop_assert_eq!(at(&fresh, second.after(Duration::from_millis(1))), third);
    }

    /// A result never changes before as many consecutive outcomes as its threshold.
    #[test]
    fn result_needs_consecutive_outcomes(outcomes in "[+-]{1,20}", success in 1u32..4, failure in 1u32..4) {
        let shown = probe_results(ProbeKind::Readiness, &settings(success, failure), &outcomes);
        let pairs: Vec<(char, char)> = shown.chars().zip(outcomes.chars()).collect();
        for (at, (result, _)) in pairs.iter().enumerate() {
            let before = at.checked_sub(1).map_or('.', |before| pairs[before].0);
            if *result != before {
                let needed = if *result == '+' { success } else { failure } as usize;
                let series = outcomes[..=at].chars().rev().take_while(|found| found == result).count();
                prop_assert!(series >= needed, "{} -> {}", outcomes, shown);
            }
        }
    }
}
