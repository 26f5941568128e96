use model::{ContainerProblem, ContainerState, ContainerStatus, SandboxState};
use proptest::prelude::*;

use super::*;
use crate::test_objects::{container, observed, pod, sandbox, worker_view};

pub(super) fn worker(phase: WorkerPhase) -> WorkerView {
    worker_view("u", phase)
}

fn rejection(kind: RejectionKind, reason: &str, message: &str) -> Option<Rejection> {
    Some(Rejection { kind, reason: reason.into(), message: message.into() })
}

fn status(pod: &Pod, observed: &ObservedPod, worker: &WorkerView, previous: Option<&PodStatus>) -> PodStatus {
    pod_status(&PodStatusInputs { worker: Some(worker), previous, ..inputs(pod, observed, &node()) })
}

pub(super) fn node() -> PodStatusNodeInputs {
    PodStatusNodeInputs {
        addresses: vec![IpAddr::from([192, 168, 0, 2])],
        runtime_name: "containerd".to_owned(),
        ..PodStatusNodeInputs::default()
    }
}

static NO_DEVICES: BTreeMap<String, Vec<ResourceStatus>> = BTreeMap::new();

pub(super) fn inputs<'a>(
    pod: &'a Pod,
    observed: &'a ObservedPod,
    node: &'a PodStatusNodeInputs,
) -> PodStatusInputs<'a> {
    PodStatusInputs {
        pod,
        observed: Some(observed),
        worker: None,
        replacement: None,
        probe_results: None,
        previous: None,
        own: None,
        resize: &[],
        actuated: None,
        cgroup: None,
        resource_health: &NO_DEVICES,
        handlers: &[],
        node,
        now: Timestamp::from_secs(50),
    }
}

pub(super) fn exited(name: &str, attempt: u32, code: i32) -> ContainerStatus {
    ContainerStatus {
        exit_code: code,
        ..container(&format!("{name}{attempt}"), name, attempt, ContainerState::Exited)
    }
}

fn two_containers(policy: &str) -> Pod {
    pod(serde_json::json!({"restartPolicy": policy,
        "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]}))
}

fn phase_of(policy: &str, containers: Vec<ContainerStatus>, phase: WorkerPhase) -> String {
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], containers);
    status(&two_containers(policy), &seen, &worker(phase), None).phase.unwrap()
}

#[test]
fn derives_phase_from_container_states() {
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

/// The status of an API pod with these init containers and no regular container.
fn deleted_during_init(policy: &str, init: Vec<ContainerStatus>, phase: WorkerPhase) -> PodStatus {
    let mut deleted = pod(serde_json::json!({"restartPolicy": policy,
        "initContainers": [{"name": "init", "image": "x"}, {"name": "next", "image": "x"}],
        "containers": [{"name": "a", "image": "x"}]}));
    deleted.source = model::PodSource::Api;
    let seen = observed(vec![sandbox("s", 0, SandboxState::NotReady)], init);
    status(&deleted, &seen, &worker(phase), None)
}

#[test]
fn pod_deleted_during_init_is_failed() {
    for policy in ["Always", "OnFailure", "Never"] {
        for init in
            [vec![], vec![exited("init", 0, 143)], vec![exited("init", 2, 1)], vec![exited("init", 0, 0)]]
        {
            let terminal = deleted_during_init(policy, init.clone(), WorkerPhase::Finished);
            assert_eq!(terminal.phase.as_deref(), Some("Failed"), "{policy} {init:?}");
            let main = &terminal.container_statuses.unwrap()[0];
            assert!(main.state.as_ref().unwrap().waiting.is_some(), "{policy} {init:?}: {main:?}");
        }
    }
    let stopping = deleted_during_init("Always", vec![exited("init", 0, 143)], WorkerPhase::Terminating);
    assert_eq!(stopping.phase.as_deref(), Some("Pending"));
}

#[test]
fn stopped_api_pod_gets_terminal_phase() {
    for (policy, codes, expected) in
        [("Always", [0, 0], "Succeeded"), ("Always", [0, 137], "Failed"), ("OnFailure", [143, 143], "Failed")]
    {
        let mut stopped = two_containers(policy);
        stopped.source = model::PodSource::Api;
        let seen = observed(vec![], vec![exited("a", 0, codes[0]), exited("b", 0, codes[1])]);
        let terminal = status(&stopped, &seen, &worker(WorkerPhase::Finished), None);
        assert_eq!(terminal.phase.as_deref(), Some(expected), "{policy} {codes:?}");
    }
}

#[test]
fn terminal_phase_never_reverts() {
    let seen = observed(vec![], vec![exited("a", 0, 0), exited("b", 0, 0)]);
    let previous = PodStatus { phase: Some("Failed".into()), ..Default::default() };
    let terminal =
        status(&two_containers("Always"), &seen, &worker(WorkerPhase::Terminated), Some(&previous));
    assert_eq!(terminal.phase.as_deref(), Some("Failed"));
    let restarted = status(&two_containers("Always"), &seen, &worker(WorkerPhase::Syncing), Some(&previous));
    assert_eq!(restarted.phase.as_deref(), Some("Running"));
}

#[test]
fn container_in_backoff_is_waiting_with_last_termination() {
    let mut view = worker(WorkerPhase::Syncing);
    view.problems.insert(
        "a".into(),
        ContainerProblem { reason: "CrashLoopBackOff".into(), message: "back-off 10s".into() },
    );
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![exited("a", 2, 9)]);
    let status = status(&two_containers("Always"), &seen, &view, None);
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
fn restart_of_all_containers_counts_once() {
    let pod = pod(serde_json::json!({"restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "x"}],
        "containers": [{"name": "a", "image": "x", "restartPolicy": "Never", "restartPolicyRules": [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]}]}));
    let ready = || vec![sandbox("s", 0, SandboxState::Ready)];
    let view = worker(WorkerPhase::Syncing);
    let ended = observed(ready(), vec![exited("init", 0, 0), exited("a", 0, 42)]);
    let mut shown = status(&pod, &ended, &view, None);
    // The init container is removed first; the status is computed several times before the other one follows.
    let half_removed = observed(ready(), vec![exited("a", 0, 42)]);
    for _ in 0..3 {
        shown = status(&pod, &half_removed, &view, Some(&shown));
        let init = &shown.init_container_statuses.as_ref().unwrap()[0];
        assert_eq!(init.restart_count, 1, "{init:?}");
    }
}

#[test]
fn ready_condition_lists_unready_containers() {
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("a", "a", 0, ContainerState::Running)],
    );
    let status = status(&two_containers("Always"), &seen, &worker(WorkerPhase::Syncing), None);
    let conditions = status.conditions.unwrap();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [b]"));
    assert_eq!(ready.reason.as_deref(), Some("ContainersNotReady"));
}

#[test]
fn transition_time_changes_only_with_condition_status() {
    let pod = two_containers("Always");
    let running = |name: &str| container(name, name, 0, ContainerState::Running);
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![running("a"), running("b")]);
    let first = status(&pod, &seen, &worker(WorkerPhase::Syncing), None);
    let node = node();
    let later = PodStatusInputs {
        previous: Some(&first),
        now: Timestamp::from_secs(99),
        ..inputs(&pod, &seen, &node)
    };
    assert_eq!(pod_status(&later), first);
}

#[test]
fn host_network_pod_shows_node_address() {
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
fn stopped_static_pod_is_not_terminal() {
    let terminal = WorkerPhase::Terminated;
    assert_eq!(phase_of("Always", vec![exited("a", 0, 0), exited("b", 0, 0)], terminal), "Running");
    assert_eq!(phase_of("Never", vec![exited("a", 0, 0), exited("b", 0, 137)], terminal), "Failed");
}

#[test]
fn rejected_pod_has_reason_but_no_conditions() {
    let mut view = worker(WorkerPhase::Terminated);
    view.rejection = Some(Rejection::at_admission("NodeAffinity", "Predicate NodeAffinity failed"));
    let rejected = status(&two_containers("Always"), &observed(vec![], vec![]), &view, None);
    assert_eq!(rejected.phase.as_deref(), Some("Failed"));
    assert_eq!(rejected.reason.as_deref(), Some("NodeAffinity"));
    assert_eq!(rejected.message.as_deref(), Some("Pod was rejected: Predicate NodeAffinity failed"));
    assert!(rejected.conditions.is_none() && rejected.container_statuses.is_none());
    view.rejection = rejection(RejectionKind::Deadline, "DeadlineExceeded", "too long");
    let ended = status(&two_containers("Always"), &observed(vec![], vec![]), &view, None);
    assert_eq!(condition_of(&ended, "Ready").reason.as_deref(), Some("PodFailed"));
}

#[test]
fn terminal_phase_keeps_reason() {
    let seen = observed(vec![], vec![exited("a", 0, 1), exited("b", 0, 0)]);
    let previous = PodStatus {
        phase: Some("Failed".into()),
        reason: Some("DeadlineExceeded".into()),
        message: Some("too long".into()),
        ..Default::default()
    };
    let terminal = status(&two_containers("Never"), &seen, &worker(WorkerPhase::Terminated), Some(&previous));
    assert_eq!(terminal.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(terminal.message.as_deref(), Some("too long"));
}

#[test]
fn vanished_running_container_has_unknown_status() {
    let pod = two_containers("Always");
    let up = vec![sandbox("s", 0, SandboxState::Ready)];
    let run = |name: &str| container(name, name, 0, ContainerState::Running);
    let syncing = worker(WorkerPhase::Syncing);
    let before = status(&pod, &observed(up.clone(), vec![run("a"), run("b")]), &syncing, None);
    let without_b = observed(up, vec![run("a")]);
    let after = status(&pod, &without_b, &syncing, Some(&before));
    let b = container_of(&after, "b");
    assert_eq!(b.restart_count, 1);
    assert_eq!(terminated_of(b.last_state.as_ref()), (137, Some("ContainerStatusUnknown")));
    assert_eq!(after.phase.as_deref(), Some("Running"));
    assert_eq!(status(&pod, &without_b, &syncing, Some(&after)), after);
}

#[test]
fn interrupted_start_counts_as_one_restart() {
    let pod = two_containers("Always");
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
        status = Some(super::pod_status(&PodStatusInputs {
            worker: Some(&syncing),
            previous: status.as_ref(),
            ..inputs(&pod, &observed(up.clone(), containers), &node())
        }));
    }
    assert_eq!(container_of(&status.unwrap(), "a").restart_count, 1);
}

#[test]
fn vanished_init_container_counts_as_completed() {
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
fn container_that_never_ran_fails_after_pod_stop() {
    let seen = observed(vec![], vec![exited("a", 0, 0)]);
    let status = status(&two_containers("Never"), &seen, &worker(WorkerPhase::Terminated), None);
    let b = container_of(&status, "b");
    assert_eq!(terminated_of(b.state.as_ref()), (137, Some("ContainerStatusUnknown")));
    assert_eq!(status.phase.as_deref(), Some("Failed"));
}

#[test]
fn probe_results_set_started_and_ready() {
    use model::{ContainerProbeResults, ProbeResult};
    let pod = pod(serde_json::json!({"containers": [{"name": "a", "image": "x",
        "startupProbe": {"tcpSocket": {"port": 1}}, "readinessProbe": {"tcpSocket": {"port": 1}}}]}));
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("c", "a", 0, ContainerState::Running)],
    );
    let node = node();
    let with_results = |startup, readiness, id: &str, previous: Option<&PodStatus>| {
        let probe_results: ProbeResults =
            [("a".to_owned(), ContainerProbeResults { id: id.into(), startup, readiness, liveness: None })]
                .into();
        let status = pod_status(&PodStatusInputs {
            probe_results: Some(&probe_results),
            previous,
            ..inputs(&pod, &seen, &node)
        });
        let entry = container_of(&status, "a").clone();
        (entry.started.unwrap(), entry.ready, status)
    };
    let good = Some(ProbeResult::Success);
    let bad = Some(ProbeResult::Failure);
    let started_and_ready = |(started, ready, _): (bool, bool, PodStatus)| (started, ready);
    assert_eq!(started_and_ready(with_results(None, None, "c", None)), (false, false));
    assert_eq!(started_and_ready(with_results(good, None, "c", None)), (true, false));
    assert_eq!(started_and_ready(with_results(good, bad, "c", None)), (true, false));
    assert_eq!(started_and_ready(with_results(bad, good, "c", None)), (false, false));
    assert_eq!(started_and_ready(with_results(good, good, "another", None)), (false, false));
    let (started, ready, before) = with_results(good, good, "c", None);
    assert!(started && ready);
    // Without probe results the previous values of the same container ID are kept.
    assert_eq!(started_and_ready(with_results(None, None, "c", Some(&before))), (true, true));
}

#[test]
fn pod_is_pending_until_sidecar_started() {
    let pod =
        pod(serde_json::json!({"initContainers": [{"name": "s", "image": "x", "restartPolicy": "Always",
        "startupProbe": {"tcpSocket": {"port": 1}}}], "containers": [{"name": "a", "image": "x"}]}));
    let side = container("s", "s", 0, ContainerState::Running);
    let up = vec![sandbox("s", 0, SandboxState::Ready)];
    let pending =
        status(&pod, &observed(up.clone(), vec![side.clone()]), &worker(WorkerPhase::Syncing), None);
    assert_eq!(pending.phase.as_deref(), Some("Pending"));
    assert_eq!(condition_of(&pending, "Initialized").reason.as_deref(), Some("ContainersNotInitialized"));
    // Once a regular container exists, a restarting sidecar does not make the pod Pending again.
    let main = container("a", "a", 0, ContainerState::Running);
    let later = status(&pod, &observed(up, vec![side, main]), &worker(WorkerPhase::Syncing), None);
    assert_eq!(later.phase.as_deref(), Some("Running"));
    assert_eq!(condition_of(&later, "Initialized").status, "True");
    let ready = condition_of(&later, "Ready");
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [s]"));
}

#[test]
fn container_restart_rules_override_pod_policy() {
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
fn unset_readiness_gate_keeps_pod_unready() {
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
fn rejects_illegal_container_transition() {
    let pod = two_containers("Never");
    let up = vec![sandbox("s", 0, SandboxState::Ready)];
    let run = |name: &str| container(name, name, 1, ContainerState::Running);
    let syncing = worker(WorkerPhase::Syncing);
    let before = status(&pod, &observed(up.clone(), vec![exited("a", 0, 1), run("b")]), &syncing, None);
    let after = status(&pod, &observed(up, vec![run("a"), run("b")]), &syncing, Some(&before));
    assert_eq!(after, before);
}

#[test]
fn sorts_pod_ips_by_node_ip_family() {
    let mut up = sandbox("s", 0, SandboxState::Ready);
    up.ips = Some(vec!["fd00::7".into(), "10.0.0.7".into(), "10.0.0.8".into()]);
    let pod = two_containers("Always");
    let status = status(&pod, &observed(vec![up], vec![]), &worker(WorkerPhase::Syncing), None);
    let ips: Vec<_> = status.pod_ips.unwrap().into_iter().map(|ip| ip.ip).collect();
    assert_eq!(ips, ["10.0.0.7", "fd00::7"]);
}

#[test]
fn running_container_shows_actuated_resources() {
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
    /// A pod with policy Always never becomes terminal while it is synced.
    #[test]
    fn pod_with_policy_always_stays_non_terminal(a in any_container(), b in any_container()) {
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

    /// Computing the status again with the same inputs does not change it.
    #[test]
    fn status_computation_is_idempotent(a in any_container(), terminal in any::<bool>()) {
        let containers = match a {
            (0, _) => vec![],
            (1, _) => vec![container("a", "a", 0, ContainerState::Running)],
            (_, code) => vec![exited("a", 0, code)],
        };
        let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], containers);
        let view = worker(if terminal { WorkerPhase::Terminated } else { WorkerPhase::Syncing });
        let first = status(&two_containers("OnFailure"), &seen, &view, None);
        prop_assert_eq!(status(&two_containers("OnFailure"), &seen, &view, Some(&first)), first);
    }
}

#[test]
fn disabled_feature_gates_hide_their_fields() {
    let (pod, seen) =
        (two_containers("Always"), observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![]));
    let shown = |gates: PodGates| {
        let node = PodStatusNodeInputs { gates, ..node() };
        let status = pod_status(&inputs(&pod, &seen, &node));
        let conditions = status.conditions.unwrap_or_default();
        (conditions.iter().any(|one| one.type_ == "PodReadyToStartContainers"), status.resources.is_some())
    };
    let on = PodGates::default();
    assert_eq!(shown(on), (true, true));
    assert_eq!(shown(PodGates { ready_to_start_condition: false, ..on }), (false, true));
    assert_eq!(shown(PodGates { pod_level_resize: false, ..on }), (true, false));
}

#[test]
fn preempted_pod_phase_follows_exit_codes() {
    let object = serde_json::json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "a", "image": "x"}], "restartPolicy": "Always"},
    });
    let pod = Pod::from_object(serde_json::from_value(object).unwrap(), model::PodSource::Api).unwrap();
    let ended = |kind: RejectionKind, phase: WorkerPhase, code: i32| {
        let reason = if kind == RejectionKind::Deadline { "DeadlineExceeded" } else { "Preempting" };
        let view = WorkerView { rejection: rejection(kind, reason, "no"), ..worker(phase) };
        let running = observed(vec![], vec![container("a0", "a", 0, ContainerState::Running)]);
        let before = status(&pod, &running, &worker(WorkerPhase::Syncing), None);
        let shown = status(&pod, &observed(vec![], vec![exited("a", 0, code)]), &view, Some(&before));
        (shown.phase.unwrap(), shown.reason.unwrap_or_default())
    };
    let phase_and_reason = |phase: &str, reason: &str| (phase.to_owned(), reason.to_owned());
    let (stops, terminal) = (WorkerPhase::Terminating, WorkerPhase::Terminated);
    let (preempted, late) = (RejectionKind::Preemption, RejectionKind::Deadline);
    assert_eq!(ended(preempted, terminal, 0), phase_and_reason("Succeeded", ""));
    assert_eq!(ended(preempted, terminal, 137), phase_and_reason("Failed", "Preempting"));
    // The phase does not change until all containers have terminated.
    assert_eq!(ended(preempted, stops, 137).0, "Running");
    assert_eq!(ended(late, stops, 0), phase_and_reason("Failed", "DeadlineExceeded"));
    assert_eq!(ended(late, terminal, 0), phase_and_reason("Failed", "DeadlineExceeded"));
}

#[test]
fn preempted_pod_gets_disruption_condition_once() {
    let pod = two_containers("Always");
    let rejected = |kind: RejectionKind, message: &str| WorkerView {
        rejection: rejection(kind, "Reason", message),
        ..worker(WorkerPhase::Terminating)
    };
    let seen = observed(Vec::new(), Vec::new());
    let first = status(&pod, &seen, &rejected(RejectionKind::Preemption, "no"), None);
    let again = status(&pod, &seen, &rejected(RejectionKind::Preemption, "no"), Some(&first));
    for shown in [first, again] {
        let conditions = shown.conditions.unwrap_or_default();
        let found: Vec<_> = conditions.iter().filter(|entry| entry.type_ == "DisruptionTarget").collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].reason.as_deref(), Some("TerminationByKubelet"));
    }
    // Node pressure sets the condition with the eviction message; exceeding a limit or deadline of the pod does not.
    let evicted = |kind: RejectionKind, message: &str| {
        let conditions = status(&pod, &seen, &rejected(kind, message), None).conditions.unwrap_or_default();
        conditions.into_iter().find(|entry| entry.type_ == "DisruptionTarget").and_then(|entry| entry.message)
    };
    let low = "The node was low on resource: memory. ";
    assert_eq!(evicted(RejectionKind::NodePressure, low).as_deref(), Some(low));
    let over_limit = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ";
    assert_eq!(evicted(RejectionKind::StorageLimit, over_limit), None);
    assert_eq!(evicted(RejectionKind::Deadline, "no"), None);
}

#[test]
fn shutdown_sets_reason_and_disruption_condition() {
    use crate::node::node_shutdown::{MESSAGE, REASON};
    let pod = two_containers("Always");
    let view = |phase| WorkerView {
        rejection: rejection(RejectionKind::NodeShutdown, REASON, MESSAGE),
        ..worker(phase)
    };
    let both = |make: &dyn Fn(&str) -> ContainerStatus| observed(vec![], vec![make("a"), make("b")]);
    let runs = both(&|name| container(name, name, 0, ContainerState::Running));
    let before = status(&pod, &runs, &worker(WorkerPhase::Syncing), None);
    let stops = status(&pod, &runs, &view(WorkerPhase::Terminating), Some(&before));
    assert_eq!((stops.phase.as_deref(), stops.reason.as_deref()), (Some("Running"), None));
    let killed = both(&|name| exited(name, 0, 137));
    let terminal = status(&pod, &killed, &view(WorkerPhase::Terminated), Some(&stops));
    assert_eq!((terminal.phase.as_deref(), terminal.reason.as_deref()), (Some("Failed"), Some("Terminated")));
    assert_eq!(
        terminal.message.as_deref(),
        Some("Pod was terminated in response to imminent node shutdown.")
    );
    for shown in [&stops, &terminal] {
        let condition = condition_of(shown, "DisruptionTarget");
        assert_eq!((&*condition.status, condition.reason.as_deref()), ("True", Some("TerminationByKubelet")));
        assert_eq!(condition.message.as_deref(), Some(MESSAGE));
    }
}

#[test]
fn pod_from_cache_has_from_cache_condition() {
    let mut pod = two_containers("Always");
    let (observed, node) = (observed(vec![], vec![]), node());
    let conditions = |pod: &Pod| {
        let status = pod_status(&inputs(pod, &observed, &node));
        status.conditions.into_iter().flatten().find(|condition| condition.type_ == "podward.dev/FromCache")
    };
    assert_eq!(conditions(&pod), None);
    pod.standing = model::Standing::Remembered;
    let condition = conditions(&pod).unwrap();
    assert_eq!((&*condition.status, condition.reason.as_deref()), ("True", Some("NotConfirmed")));
    // The condition is removed once the API server confirms the pod, even if it was written there.
    pod.standing = model::Standing::Confirmed;
    pod.status.conditions = Some(vec![condition]);
    assert_eq!(conditions(&pod), None);
}

#[test]
fn overhead_counts_without_container_requests() {
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
fn shows_cgroup_limits_once_api_phase_is_running() {
    let mut pod = pod(serde_json::json!({"containers": [
        {"name": "a", "image": "x", "resources": {"limits": {"memory": "1Mi"}}}]}));
    let (seen, node) = (observed(vec![], vec![]), node());
    let cgroup = CgroupLimits { memory: Some(2 * 1024 * 1024), ..CgroupLimits::default() };
    let shown = |pod: &Pod| {
        let status = pod_status(&PodStatusInputs { cgroup: Some(&cgroup), ..inputs(pod, &seen, &node) });
        status.resources.unwrap().limits.unwrap()["memory"].0.clone()
    };
    assert_eq!(shown(&pod), "1Mi");
    pod.status.phase = Some("Running".into());
    assert_eq!(shown(&pod), "2Mi");
}

#[test]
fn feature_gate_resets_probe_state_on_agent_restart() {
    let mut pod = two_containers("Always");
    let probe: Option<k8s_openapi::api::core::v1::Probe> = Some(Default::default());
    pod.spec.containers[0].startup_probe = probe.clone();
    pod.spec.containers[0].readiness_probe = probe;
    let running = container("c", "a", 0, ContainerState::Running);
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![running]);
    let mut before = pod_status(&inputs(&pod, &seen, &node()));
    let entry = &mut before.container_statuses.as_mut().unwrap()[0];
    (entry.started, entry.ready) = (Some(true), true);
    let with_results = |restart_forgets_probes| {
        let gates = PodGates { restart_forgets_probes, ..PodGates::default() };
        let node = PodStatusNodeInputs { gates, ..node() };
        let status = pod_status(&PodStatusInputs { previous: Some(&before), ..inputs(&pod, &seen, &node) });
        let entry = container_of(&status, "a").clone();
        (entry.started.unwrap(), entry.ready)
    };
    assert_eq!(with_results(false), (true, true));
    assert_eq!(with_results(true), (false, false));
}

#[test]
fn feature_gate_shows_mounted_image_digest() {
    let pod = pod(serde_json::json!({
        "volumes": [{"name": "v", "image": {"reference": "r.io/data:1"}}, {"name": "e", "emptyDir": {}}],
        "containers": [{"name": "a", "image": "x", "volumeMounts": [
            {"name": "v", "mountPath": "/data"}, {"name": "e", "mountPath": "/e"}]}]}));
    let mut running = container("c", "a", 0, ContainerState::Running);
    running.image_mounts = vec![("/data".into(), "sha256:d".into()), ("/e".into(), "sha256:e".into())];
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![running]);
    let shown = |image_volume_digests| {
        let gates = PodGates { image_volume_digests, ..PodGates::default() };
        let node = PodStatusNodeInputs { gates, ..node() };
        let status = pod_status(&inputs(&pod, &seen, &node));
        let mounts = container_of(&status, "a").volume_mounts.clone().unwrap();
        let image = |mount: k8s_openapi::api::core::v1::VolumeMountStatus| {
            mount.volume_status.and_then(|status| status.image).map(|image| image.image_ref)
        };
        mounts.into_iter().map(image).collect::<Vec<_>>()
    };
    assert_eq!(shown(true), [Some("sha256:d".to_owned()), None]);
    assert_eq!(shown(false), [None, None]);
}
