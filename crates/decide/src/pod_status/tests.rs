use model::{ContainerProblem, ContainerState, ContainerStatus, SandboxState};
use proptest::prelude::*;

use super::*;
use crate::test_objects::{container, observed, pod, sandbox};

fn worker(phase: WorkerPhase) -> WorkerView {
    WorkerView {
        uid: "u".into(),
        full_name: pod(serde_json::json!({"containers": []})).full_name,
        phase,
        started: true,
        passed: true,
        restart_requested: false,
        orphan: false,
        is_static: false,
        problems: Default::default(),
        last_error: None,
        rejection: None,
    }
}

fn status(pod: &Pod, observed: &ObservedPod, worker: &WorkerView, previous: Option<&PodStatus>) -> PodStatus {
    pod_status(&Facts { worker: Some(worker), previous, ..facts(pod, observed, &node()) })
}

fn node() -> NodeFacts {
    NodeFacts {
        addresses: vec![IpAddr::from([192, 168, 0, 2])],
        runtime_name: "containerd".to_owned(),
        ..NodeFacts::default()
    }
}

pub(super) fn facts<'a>(pod: &'a Pod, observed: &'a ObservedPod, node: &'a NodeFacts) -> Facts<'a> {
    Facts {
        pod,
        observed: Some(observed),
        worker: None,
        verdicts: None,
        previous: None,
        own: None,
        resize: &[],
        cgroup: None,
        handlers: &[],
        node,
        now: Timestamp::from_secs(50),
    }
}

fn exited(name: &str, attempt: u32, code: i32) -> ContainerStatus {
    ContainerStatus {
        exit_code: code,
        ..container(&format!("{name}{attempt}"), name, attempt, ContainerState::Exited)
    }
}

fn two(policy: &str) -> Pod {
    pod(serde_json::json!({"restartPolicy": policy,
        "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]}))
}

fn phase_of(policy: &str, containers: Vec<ContainerStatus>, phase: WorkerPhase) -> String {
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], containers);
    status(&two(policy), &seen, &worker(phase), None).phase.unwrap()
}

#[test]
fn phases_follow_the_containers() {
    let run = |name: &str| container(name, name, 0, ContainerState::Running);
    let syncing = WorkerPhase::Syncing;
    assert_eq!(phase_of("Always", vec![], syncing), "Pending");
    assert_eq!(phase_of("Always", vec![run("a")], syncing), "Pending");
    assert_eq!(phase_of("Always", vec![run("a"), run("b")], syncing), "Running");
    assert_eq!(phase_of("Always", vec![exited("a", 0, 0), exited("b", 0, 0)], syncing), "Running");
    assert_eq!(phase_of("Never", vec![run("a"), exited("b", 0, 1)], syncing), "Running");
    assert_eq!(phase_of("Never", vec![exited("a", 0, 0), exited("b", 0, 0)], syncing), "Succeeded");
    assert_eq!(phase_of("Never", vec![exited("a", 0, 0), exited("b", 0, 3)], syncing), "Failed");
    assert_eq!(phase_of("OnFailure", vec![exited("a", 0, 0), exited("b", 0, 3)], syncing), "Running");
    assert_eq!(phase_of("OnFailure", vec![exited("a", 0, 0), exited("b", 0, 0)], syncing), "Succeeded");
}

/// A pod of the API server with an init container, of which this much is there.
fn deleted_during_init(policy: &str, init: Vec<ContainerStatus>, phase: WorkerPhase) -> PodStatus {
    let mut deleted = pod(serde_json::json!({"restartPolicy": policy,
        "initContainers": [{"name": "init", "image": "x"}, {"name": "next", "image": "x"}],
        "containers": [{"name": "a", "image": "x"}]}));
    deleted.source = model::PodSource::Api;
    let seen = observed(vec![sandbox("s", 0, SandboxState::NotReady)], init);
    status(&deleted, &seen, &worker(phase), None)
}

#[test]
fn a_pod_that_was_deleted_before_it_had_begun_has_failed() {
    for policy in ["Always", "OnFailure", "Never"] {
        for init in
            [vec![], vec![exited("init", 0, 143)], vec![exited("init", 2, 1)], vec![exited("init", 0, 0)]]
        {
            let over = deleted_during_init(policy, init.clone(), WorkerPhase::Finished);
            assert_eq!(over.phase.as_deref(), Some("Failed"), "{policy} {init:?}");
            let main = &over.container_statuses.unwrap()[0];
            assert!(main.state.as_ref().unwrap().waiting.is_some(), "{policy} {init:?}: {main:?}");
        }
    }
    let stopping = deleted_during_init("Always", vec![exited("init", 0, 143)], WorkerPhase::Terminating);
    assert_eq!(stopping.phase.as_deref(), Some("Pending"));
}

#[test]
fn a_pod_of_the_api_server_that_was_stopped_is_over() {
    for (policy, codes, expected) in
        [("Always", [0, 0], "Succeeded"), ("Always", [0, 137], "Failed"), ("OnFailure", [143, 143], "Failed")]
    {
        let mut stopped = two(policy);
        stopped.source = model::PodSource::Api;
        let seen = observed(vec![], vec![exited("a", 0, codes[0]), exited("b", 0, codes[1])]);
        let over = status(&stopped, &seen, &worker(WorkerPhase::Finished), None);
        assert_eq!(over.phase.as_deref(), Some(expected), "{policy} {codes:?}");
    }
}

#[test]
fn a_terminal_phase_never_reverts() {
    let seen = observed(vec![], vec![exited("a", 0, 0), exited("b", 0, 0)]);
    let previous = PodStatus { phase: Some("Failed".into()), ..Default::default() };
    let over = status(&two("Always"), &seen, &worker(WorkerPhase::Terminated), Some(&previous));
    assert_eq!(over.phase.as_deref(), Some("Failed"));
    let anew = status(&two("Always"), &seen, &worker(WorkerPhase::Syncing), Some(&previous));
    assert_eq!(anew.phase.as_deref(), Some("Running"));
}

#[test]
fn a_container_in_back_off_waits_and_shows_its_last_end() {
    let mut view = worker(WorkerPhase::Syncing);
    view.problems.insert(
        "a".into(),
        ContainerProblem { reason: "CrashLoopBackOff".into(), message: "back-off 10s".into() },
    );
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![exited("a", 2, 9)]);
    let status = status(&two("Always"), &seen, &view, None);
    let a = &status.container_statuses.unwrap()[0];
    assert_eq!(a.restart_count, 2);
    assert_eq!(
        a.state.as_ref().unwrap().waiting.as_ref().unwrap().reason.as_deref(),
        Some("CrashLoopBackOff")
    );
    let last = a.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (9, Some("Error")));
}

#[test]
fn a_restart_of_all_counts_once_however_often_it_is_looked_at() {
    let pod = pod(serde_json::json!({"restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "x"}],
        "containers": [{"name": "a", "image": "x", "restartPolicy": "Never", "restartPolicyRules": [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]}]}));
    let ready = || vec![sandbox("s", 0, SandboxState::Ready)];
    let view = worker(WorkerPhase::Syncing);
    let ended = observed(ready(), vec![exited("init", 0, 0), exited("a", 0, 42)]);
    let mut shown = status(&pod, &ended, &view, None);
    // The init container is removed first; its end and the other container are looked at several times meanwhile.
    let half_removed = observed(ready(), vec![exited("a", 0, 42)]);
    for _ in 0..3 {
        shown = status(&pod, &half_removed, &view, Some(&shown));
        let init = &shown.init_container_statuses.as_ref().unwrap()[0];
        assert_eq!(init.restart_count, 1, "{init:?}");
    }
}

#[test]
fn ready_names_the_containers_that_are_not() {
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("a", "a", 0, ContainerState::Running)],
    );
    let status = status(&two("Always"), &seen, &worker(WorkerPhase::Syncing), None);
    let conditions = status.conditions.unwrap();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [b]"));
    assert_eq!(ready.reason.as_deref(), Some("ContainersNotReady"));
}

#[test]
fn transition_times_move_only_with_the_verdict() {
    let pod = two("Always");
    let running = |name: &str| container(name, name, 0, ContainerState::Running);
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![running("a"), running("b")]);
    let first = status(&pod, &seen, &worker(WorkerPhase::Syncing), None);
    let node = node();
    let later = Facts { previous: Some(&first), now: Timestamp::from_secs(99), ..facts(&pod, &seen, &node) };
    assert_eq!(pod_status(&later), first);
}

#[test]
fn host_network_pods_show_the_nodes_address() {
    let pod = pod(serde_json::json!({"hostNetwork": true, "containers": [{"name": "a", "image": "x"}]}));
    let status = status(&pod, &observed(vec![], vec![]), &worker(WorkerPhase::Syncing), None);
    assert_eq!(status.pod_ip.as_deref(), Some("192.168.0.2"));
    assert_eq!(status.host_ip.as_deref(), Some("192.168.0.2"));
}

fn container_of<'a>(status: &'a PodStatus, name: &str) -> &'a k8s_openapi::api::core::v1::ContainerStatus {
    let lists = [&status.init_container_statuses, &status.container_statuses];
    lists.into_iter().flatten().flatten().find(|entry| entry.name == name).unwrap()
}

fn condition_of<'a>(status: &'a PodStatus, kind: &str) -> &'a PodCondition {
    status.conditions.as_ref().unwrap().iter().find(|condition| condition.type_ == kind).unwrap()
}

fn terminated_of(state: Option<&k8s_openapi::api::core::v1::ContainerState>) -> (i32, Option<&str>) {
    let ended = state.unwrap().terminated.as_ref().unwrap();
    (ended.exit_code, ended.reason.as_deref())
}

#[test]
fn stopped_static_pods_are_not_said_to_be_over() {
    let over = WorkerPhase::Terminated;
    assert_eq!(phase_of("Always", vec![exited("a", 0, 0), exited("b", 0, 0)], over), "Running");
    assert_eq!(phase_of("Never", vec![exited("a", 0, 0), exited("b", 0, 137)], over), "Failed");
}

#[test]
fn a_rejected_pod_shows_the_reason_and_nothing_else() {
    let mut view = worker(WorkerPhase::Terminated);
    view.rejection = Some(model::Rejection {
        reason: "NodeAffinity".into(),
        message: "Pod was rejected: Predicate NodeAffinity failed".into(),
    });
    let rejected = status(&two("Always"), &observed(vec![], vec![]), &view, None);
    assert_eq!(rejected.phase.as_deref(), Some("Failed"));
    assert_eq!(rejected.reason.as_deref(), Some("NodeAffinity"));
    assert!(rejected.conditions.is_none() && rejected.container_statuses.is_none());
    view.rejection = Some(model::Rejection { reason: "DeadlineExceeded".into(), message: "too long".into() });
    let ended = status(&two("Always"), &observed(vec![], vec![]), &view, None);
    assert_eq!(condition_of(&ended, "Ready").reason.as_deref(), Some("PodFailed"));
}

#[test]
fn a_terminal_phase_keeps_its_reason() {
    let seen = observed(vec![], vec![exited("a", 0, 1), exited("b", 0, 0)]);
    let previous = PodStatus {
        phase: Some("Failed".into()),
        reason: Some("DeadlineExceeded".into()),
        message: Some("too long".into()),
        ..Default::default()
    };
    let over = status(&two("Never"), &seen, &worker(WorkerPhase::Terminated), Some(&previous));
    assert_eq!(over.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(over.message.as_deref(), Some("too long"));
}

#[test]
fn a_running_container_that_vanished_has_an_unknown_end() {
    let pod = two("Always");
    let up = vec![sandbox("s", 0, SandboxState::Ready)];
    let run = |name: &str| container(name, name, 0, ContainerState::Running);
    let syncing = worker(WorkerPhase::Syncing);
    let before = status(&pod, &observed(up.clone(), vec![run("a"), run("b")]), &syncing, None);
    let gone = observed(up, vec![run("a")]);
    let after = status(&pod, &gone, &syncing, Some(&before));
    let b = container_of(&after, "b");
    assert_eq!(b.restart_count, 1);
    assert_eq!(terminated_of(b.last_state.as_ref()), (137, Some("ContainerStatusUnknown")));
    assert_eq!(after.phase.as_deref(), Some("Running"));
    assert_eq!(status(&pod, &gone, &syncing, Some(&after)), after);
}

#[test]
fn a_start_that_was_cut_off_counts_once() {
    let pod = two("Always");
    let up = vec![sandbox("s", 0, SandboxState::Ready)];
    let syncing = worker(WorkerPhase::Syncing);
    let mut status = None;
    for newest in [
        vec![],
        vec![container("cut", "a", 1, ContainerState::Created)],
        vec![],
        vec![container("again", "a", 1, ContainerState::Running)],
    ] {
        let containers = newest.into_iter().chain([exited("a", 0, 1)]).collect();
        status = Some(super::pod_status(&Facts {
            worker: Some(&syncing),
            previous: status.as_ref(),
            ..facts(&pod, &observed(up.clone(), containers), &node())
        }));
    }
    assert_eq!(container_of(&status.unwrap(), "a").restart_count, 1);
}

#[test]
fn an_init_container_that_vanished_after_its_work_was_done() {
    let pod = pod(serde_json::json!({"initContainers": [{"name": "i", "image": "x"}],
        "containers": [{"name": "a", "image": "x"}]}));
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("a", "a", 0, ContainerState::Running)],
    );
    let status = status(&pod, &seen, &worker(WorkerPhase::Syncing), None);
    let init = container_of(&status, "i");
    assert_eq!(terminated_of(init.state.as_ref()), (0, Some("Completed")));
    assert!(init.ready);
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

#[test]
fn what_never_ran_has_failed_once_the_pod_was_stopped() {
    let seen = observed(vec![], vec![exited("a", 0, 0)]);
    let status = status(&two("Never"), &seen, &worker(WorkerPhase::Terminated), None);
    let b = container_of(&status, "b");
    assert_eq!(terminated_of(b.state.as_ref()), (137, Some("ContainerStatusUnknown")));
    assert_eq!(status.phase.as_deref(), Some("Failed"));
}

#[test]
fn probes_decide_over_started_and_ready() {
    use model::{ContainerVerdicts, ProbeVerdict};
    let pod = pod(serde_json::json!({"containers": [{"name": "a", "image": "x",
        "startupProbe": {"tcpSocket": {"port": 1}}, "readinessProbe": {"tcpSocket": {"port": 1}}}]}));
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("c", "a", 0, ContainerState::Running)],
    );
    let node = node();
    let judged = |startup, readiness, id: &str, previous: Option<&PodStatus>| {
        let verdicts: ProbeVerdicts =
            [("a".to_owned(), ContainerVerdicts { id: id.into(), startup, readiness, liveness: None })]
                .into();
        let status = pod_status(&Facts { verdicts: Some(&verdicts), previous, ..facts(&pod, &seen, &node) });
        let entry = container_of(&status, "a").clone();
        (entry.started.unwrap(), entry.ready, status)
    };
    let good = Some(ProbeVerdict::Success);
    let bad = Some(ProbeVerdict::Failure);
    let words = |(started, ready, _): (bool, bool, PodStatus)| (started, ready);
    assert_eq!(words(judged(None, None, "c", None)), (false, false));
    assert_eq!(words(judged(good, None, "c", None)), (true, false));
    assert_eq!(words(judged(good, bad, "c", None)), (true, false));
    assert_eq!(words(judged(bad, good, "c", None)), (false, false));
    assert_eq!(words(judged(good, good, "another", None)), (false, false));
    let (started, ready, before) = judged(good, good, "c", None);
    assert!(started && ready);
    // An agent that has not asked yet goes on saying what was true of this very container.
    assert_eq!(words(judged(None, None, "c", Some(&before))), (true, true));
}

#[test]
fn a_sidecar_that_has_not_started_holds_the_pod_back() {
    let pod =
        pod(serde_json::json!({"initContainers": [{"name": "s", "image": "x", "restartPolicy": "Always",
        "startupProbe": {"tcpSocket": {"port": 1}}}], "containers": [{"name": "a", "image": "x"}]}));
    let side = container("s", "s", 0, ContainerState::Running);
    let up = vec![sandbox("s", 0, SandboxState::Ready)];
    let held = status(&pod, &observed(up.clone(), vec![side.clone()]), &worker(WorkerPhase::Syncing), None);
    assert_eq!(held.phase.as_deref(), Some("Pending"));
    assert_eq!(condition_of(&held, "Initialized").reason.as_deref(), Some("ContainersNotInitialized"));
    // Once a regular container was made, a sidecar that starts again does not put the pod back.
    let main = container("a", "a", 0, ContainerState::Running);
    let later = status(&pod, &observed(up, vec![side, main]), &worker(WorkerPhase::Syncing), None);
    assert_eq!(later.phase.as_deref(), Some("Running"));
    assert_eq!(condition_of(&later, "Initialized").status, "True");
    let ready = condition_of(&later, "Ready");
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [s]"));
}

#[test]
fn rules_of_a_container_come_before_the_pods_policy() {
    let pod = pod(serde_json::json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x",
        "restartPolicy": "Never", "restartPolicyRules":
            [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}]}));
    let phase = |code| {
        let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![exited("a", 0, code)]);
        status(&pod, &seen, &worker(WorkerPhase::Syncing), None).phase.unwrap()
    };
    assert_eq!(
        (phase(42).as_str(), phase(1).as_str(), phase(0).as_str()),
        ("Running", "Failed", "Succeeded")
    );
}

#[test]
fn gates_hold_a_ready_pod_back() {
    let pod = pod(serde_json::json!({"readinessGates": [{"conditionType": "x/gate"}],
        "containers": [{"name": "a", "image": "x"}]}));
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("a", "a", 0, ContainerState::Running)],
    );
    let status = status(&pod, &seen, &worker(WorkerPhase::Syncing), None);
    assert_eq!(condition_of(&status, "ContainersReady").status, "True");
    let ready = condition_of(&status, "Ready");
    assert_eq!(ready.reason.as_deref(), Some("ReadinessGatesNotReady"));
    assert_eq!(
        ready.message.as_deref(),
        Some("corresponding condition of pod readiness gate \"x/gate\" does not exist.")
    );
}

#[test]
fn an_illegal_transition_is_refused() {
    let pod = two("Never");
    let up = vec![sandbox("s", 0, SandboxState::Ready)];
    let run = |name: &str| container(name, name, 1, ContainerState::Running);
    let syncing = worker(WorkerPhase::Syncing);
    let before = status(&pod, &observed(up.clone(), vec![exited("a", 0, 1), run("b")]), &syncing, None);
    let after = status(&pod, &observed(up, vec![run("a"), run("b")]), &syncing, Some(&before));
    assert_eq!(after, before);
}

#[test]
fn addresses_come_in_the_order_of_the_nodes_family() {
    let mut up = sandbox("s", 0, SandboxState::Ready);
    up.ips = Some(vec!["fd00::7".into(), "10.0.0.7".into(), "10.0.0.8".into()]);
    let pod = two("Always");
    let status = status(&pod, &observed(vec![up], vec![]), &worker(WorkerPhase::Syncing), None);
    let ips: Vec<_> = status.pod_ips.unwrap().into_iter().map(|ip| ip.ip).collect();
    assert_eq!(ips, ["10.0.0.7", "fd00::7"]);
}

#[test]
fn resources_in_force_are_shown_for_running_containers() {
    let pod = pod(serde_json::json!({"containers": [{"name": "a", "image": "x", "resources": {
        "limits": {"cpu": "100m", "memory": "100M"}, "requests": {"cpu": "50m", "memory": "64Mi"}}},
        {"name": "b", "image": "x", "resources": {"requests": {"cpu": "60m", "memory": "64Mi"}}}]}));
    let mut running = container("a", "a", 0, ContainerState::Running);
    running.resources = Some(model::LinuxResources {
        cpu_period: 100_000,
        cpu_quota: 20_000,
        cpu_shares: 102,
        memory_limit_bytes: 100_000_000,
        ..Default::default()
    });
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![running]);
    let status = status(&pod, &seen, &worker(WorkerPhase::Syncing), None);
    let text =
        |list: &Option<crate::quantity::ResourceList>, name: &str| list.as_ref().unwrap()[name].0.clone();
    let shown = container_of(&status, "a").resources.clone().unwrap();
    assert_eq!(text(&shown.limits, "cpu"), "200m");
    assert_eq!(text(&shown.limits, "memory"), "100000000");
    assert_eq!(text(&shown.requests, "cpu"), "100m");
    assert_eq!(text(&shown.requests, "memory"), "64Mi");
    assert_eq!(text(&status.allocated_resources, "cpu"), "110m");
    assert_eq!(text(&status.allocated_resources, "memory"), "128Mi");
    assert_eq!(text(&status.resources.unwrap().limits, "memory"), "100M");
}

fn any_container() -> impl Strategy<Value = (u8, i32)> {
    (0u8..4, -1i32..2)
}

proptest! {
    /// A pod that may restart something is never reported as over while it is wanted.
    #[test]
    fn always_pods_never_end_while_wanted(a in any_container(), b in any_container()) {
        let make = |name: &str, (state, code): (u8, i32)| match state {
            0 => None,
            1 => Some(container(name, name, 0, ContainerState::Running)),
            2 => Some(exited(name, 0, code)),
            _ => Some(container(name, name, 0, ContainerState::Created)),
        };
        let containers = [make("a", a), make("b", b)].into_iter().flatten().collect();
        let phase = phase_of("Always", containers, WorkerPhase::Syncing);
        prop_assert!(phase == "Pending" || phase == "Running", "{}", phase);
    }

    /// Whatever was seen, computing twice gives the same.
    #[test]
    fn a_status_is_a_fixed_point(a in any_container(), over in any::<bool>()) {
        let containers = match a {
            (0, _) => vec![],
            (1, _) => vec![container("a", "a", 0, ContainerState::Running)],
            (_, code) => vec![exited("a", 0, code)],
        };
        let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], containers);
        let view = worker(if over { WorkerPhase::Terminated } else { WorkerPhase::Syncing });
        let first = status(&two("OnFailure"), &seen, &view, None);
        prop_assert_eq!(status(&two("OnFailure"), &seen, &view, Some(&first)), first);
    }
}

#[test]
fn gates_hide_what_they_brought() {
    let (pod, seen) = (two("Always"), observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![]));
    let shown = |gates: PodGates| {
        let node = NodeFacts { gates, ..node() };
        let status = pod_status(&facts(&pod, &seen, &node));
        let conditions = status.conditions.unwrap_or_default();
        (conditions.iter().any(|one| one.type_ == "PodReadyToStartContainers"), status.resources.is_some())
    };
    let on = PodGates::default();
    assert_eq!(shown(on), (true, true));
    assert_eq!(shown(PodGates { ready_to_start_condition: false, ..on }), (false, true));
    assert_eq!(shown(PodGates { pod_level_resize: false, ..on }), (true, false));
}

#[test]
fn a_pod_that_made_room_ends_as_its_containers_do() {
    let object = serde_json::json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "a", "image": "x"}], "restartPolicy": "Always"},
    });
    let pod = Pod::from_object(serde_json::from_value(object).unwrap(), model::PodSource::Api).unwrap();
    let ended = |reason: &str, phase: WorkerPhase, code: i32| {
        let view = WorkerView {
            rejection: Some(model::Rejection { reason: reason.into(), message: "no".into() }),
            ..worker(phase)
        };
        let running = observed(vec![], vec![container("a0", "a", 0, ContainerState::Running)]);
        let before = status(&pod, &running, &worker(WorkerPhase::Syncing), None);
        let shown = status(&pod, &observed(vec![], vec![exited("a", 0, code)]), &view, Some(&before));
        (shown.phase.unwrap(), shown.reason.unwrap_or_default())
    };
    let said = |phase: &str, reason: &str| (phase.to_owned(), reason.to_owned());
    let (stops, over) = (WorkerPhase::Terminating, WorkerPhase::Terminated);
    assert_eq!(ended("Preempting", over, 0), said("Succeeded", ""));
    assert_eq!(ended("Preempting", over, 137), said("Failed", "Preempting"));
    // Until all have ended, nothing is said of how the pod ends.
    assert_eq!(ended("Preempting", stops, 137).0, "Running");
    assert_eq!(ended("DeadlineExceeded", stops, 0), said("Failed", "DeadlineExceeded"));
    assert_eq!(ended("DeadlineExceeded", over, 0), said("Failed", "DeadlineExceeded"));
}

#[test]
fn a_preempted_pod_says_once_that_it_was_disrupted() {
    let pod = two("Always");
    let rejected = |reason: &str| WorkerView {
        rejection: Some(model::Rejection { reason: reason.into(), message: "no".into() }),
        ..worker(WorkerPhase::Terminating)
    };
    let seen = observed(Vec::new(), Vec::new());
    let first = status(&pod, &seen, &rejected("Preempting"), None);
    let again = status(&pod, &seen, &rejected("Preempting"), Some(&first));
    for shown in [first, again] {
        let conditions = shown.conditions.unwrap_or_default();
        let found: Vec<_> = conditions.iter().filter(|entry| entry.type_ == "DisruptionTarget").collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].reason.as_deref(), Some("TerminationByKubelet"));
    }
    // A pod that goes for the node's sake says so in the same words; one that broke its own limit does not.
    let evicted = |message: &str| {
        let mut view = rejected("Evicted");
        view.rejection = Some(model::Rejection { reason: "Evicted".into(), message: message.into() });
        let conditions = status(&pod, &seen, &view, None).conditions.unwrap_or_default();
        conditions.into_iter().find(|entry| entry.type_ == "DisruptionTarget").and_then(|entry| entry.message)
    };
    let low = "The node was low on resource: memory. ";
    assert_eq!(evicted(low).as_deref(), Some(low));
    assert_eq!(evicted("Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". "), None);
    let other = status(&pod, &seen, &rejected("DeadlineExceeded"), None).conditions.unwrap_or_default();
    assert!(other.iter().all(|entry| entry.type_ != "DisruptionTarget"));
}

#[test]
fn a_pod_that_ends_with_the_machine_says_so() {
    use crate::node_shutdown::{MESSAGE, REASON};
    let pod = two("Always");
    let view = |phase| WorkerView {
        rejection: Some(model::Rejection { reason: REASON.into(), message: MESSAGE.into() }),
        ..worker(phase)
    };
    let both = |make: &dyn Fn(&str) -> ContainerStatus| observed(vec![], vec![make("a"), make("b")]);
    let runs = both(&|name| container(name, name, 0, ContainerState::Running));
    let before = status(&pod, &runs, &worker(WorkerPhase::Syncing), None);
    let stops = status(&pod, &runs, &view(WorkerPhase::Terminating), Some(&before));
    assert_eq!((stops.phase.as_deref(), stops.reason.as_deref()), (Some("Running"), None));
    let killed = both(&|name| exited(name, 0, 137));
    let over = status(&pod, &killed, &view(WorkerPhase::Terminated), Some(&stops));
    assert_eq!((over.phase.as_deref(), over.reason.as_deref()), (Some("Failed"), Some("Terminated")));
    assert_eq!(over.message.as_deref(), Some("Pod was terminated in response to imminent node shutdown."));
    for shown in [&stops, &over] {
        let condition = condition_of(shown, "DisruptionTarget");
        assert_eq!((&*condition.status, condition.reason.as_deref()), ("True", Some("TerminationByKubelet")));
        assert_eq!(condition.message.as_deref(), Some(MESSAGE));
    }
}

#[test]
fn a_pod_that_is_run_from_memory_says_so() {
    let mut pod = two("Always");
    let (observed, node) = (observed(vec![], vec![]), node());
    let conditions = |pod: &Pod| {
        let status = pod_status(&facts(pod, &observed, &node));
        status.conditions.into_iter().flatten().find(|condition| condition.type_ == "podward.dev/FromCache")
    };
    assert_eq!(conditions(&pod), None);
    pod.standing = model::Standing::Remembered;
    let condition = conditions(&pod).unwrap();
    assert_eq!((&*condition.status, condition.reason.as_deref()), ("True", Some("NotConfirmed")));
    // Once the API server has spoken nothing is left of it, even if it was written there.
    pod.standing = model::Standing::Confirmed;
    pod.status.conditions = Some(vec![condition]);
    assert_eq!(conditions(&pod), None);
}

#[test]
fn overhead_counts_also_for_what_no_container_asks_for() {
    let pod = pod(serde_json::json!({
        "overhead": {"cpu": "10m", "memory": "8Mi"},
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "10m"}}}],
    }));
    let seen = observed(vec![], vec![]);
    let status = status(&pod, &seen, &worker(WorkerPhase::Syncing), None);
    let requests = status.allocated_resources.unwrap();
    assert_eq!((requests["cpu"].0.as_str(), requests["memory"].0.as_str()), ("20m", "8Mi"));
    assert_eq!(status.resources.unwrap().limits, None);
}

#[test]
fn the_cgroup_is_shown_once_the_api_server_shows_the_pod_running() {
    let mut pod = pod(serde_json::json!({"containers": [
        {"name": "a", "image": "x", "resources": {"limits": {"memory": "1Mi"}}}]}));
    let (seen, node) = (observed(vec![], vec![]), node());
    let cgroup = CgroupLimits { memory: Some(2 * 1024 * 1024), ..CgroupLimits::default() };
    let shown = |pod: &Pod| {
        let status = pod_status(&Facts { cgroup: Some(&cgroup), ..facts(pod, &seen, &node) });
        status.resources.unwrap().limits.unwrap()["memory"].0.clone()
    };
    assert_eq!(shown(&pod), "1Mi");
    pod.status.phase = Some("Running".into());
    assert_eq!(shown(&pod), "2Mi");
}

#[test]
fn with_its_gate_a_restart_of_the_agent_forgets_what_probes_said() {
    let mut pod = two("Always");
    let probe: Option<k8s_openapi::api::core::v1::Probe> = Some(Default::default());
    pod.spec.containers[0].startup_probe = probe.clone();
    pod.spec.containers[0].readiness_probe = probe;
    let running = container("c", "a", 0, ContainerState::Running);
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![running]);
    let mut before = pod_status(&facts(&pod, &seen, &node()));
    let entry = &mut before.container_statuses.as_mut().unwrap()[0];
    (entry.started, entry.ready) = (Some(true), true);
    let judged = |restart_forgets_probes| {
        let gates = PodGates { restart_forgets_probes, ..PodGates::default() };
        let node = NodeFacts { gates, ..node() };
        let status = pod_status(&Facts { previous: Some(&before), ..facts(&pod, &seen, &node) });
        let entry = container_of(&status, "a").clone();
        (entry.started.unwrap(), entry.ready)
    };
    assert_eq!(judged(false), (true, true));
    assert_eq!(judged(true), (false, false));
}

#[test]
fn the_id_of_a_mounted_image_is_shown_with_its_gate() {
    let pod = pod(serde_json::json!({
        "volumes": [{"name": "v", "image": {"reference": "r.io/data:1"}}, {"name": "e", "emptyDir": {}}],
        "containers": [{"name": "a", "image": "x", "volumeMounts": [
            {"name": "v", "mountPath": "/data"}, {"name": "e", "mountPath": "/e"}]}]}));
    let mut running = container("c", "a", 0, ContainerState::Running);
    running.image_mounts = vec![("/data".into(), "sha256:d".into()), ("/e".into(), "sha256:e".into())];
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![running]);
    let shown = |image_volume_digests| {
        let gates = PodGates { image_volume_digests, ..PodGates::default() };
        let node = NodeFacts { gates, ..node() };
        let status = pod_status(&facts(&pod, &seen, &node));
        let mounts = container_of(&status, "a").volume_mounts.clone().unwrap();
        let image = |mount: k8s_openapi::api::core::v1::VolumeMountStatus| {
            mount.volume_status.and_then(|status| status.image).map(|image| image.image_ref)
        };
        mounts.into_iter().map(image).collect::<Vec<_>>()
    };
    assert_eq!(shown(true), [Some("sha256:d".to_owned()), None]);
    assert_eq!(shown(false), [None, None]);
}
