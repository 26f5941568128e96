mod init;
mod rules;

use model::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::test_objects::{container, observed, pod, sandbox};

fn one(policy: &str) -> Pod {
    pod(serde_json::json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "x"}]}))
}

fn two(policy: &str) -> Pod {
    pod(serde_json::json!({"restartPolicy": policy,
        "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]}))
}

fn exited(id: &str, name: &str, attempt: u32, code: i32) -> ContainerStatus {
    ContainerStatus { exit_code: code, ..container(id, name, attempt, ContainerState::Exited) }
}

fn starts(actions: &PodActions) -> Vec<(&str, Option<u32>)> {
    actions.start.iter().map(|start| (start.name.as_str(), start.restart_count)).collect()
}

fn probe_results(
    name: &str,
    id: &str,
    startup: Option<ProbeResult>,
    liveness: Option<ProbeResult>,
) -> ProbeResults {
    let own = ContainerProbeResults { id: id.into(), startup, liveness, readiness: None };
    ProbeResults::from([(name.to_owned(), own)])
}

fn check(pod: &Pod, observed: &ObservedPod) -> PodActions {
    plan(pod, observed, &ProbeResults::new())
}

#[test]
fn new_pod_gets_sandbox_and_containers_in_order() {
    let actions = check(&two("Always"), &observed(vec![], vec![]));
    assert_eq!(actions.sandbox, SandboxPlan::Create { attempt: 0, reason: SandboxReason::First });
    assert_eq!(starts(&actions), [("a", None), ("b", None)]);
    assert!(!actions.stop_everything);
}

#[test]
fn replaces_running_containers_that_are_started_again() {
    let ready = || vec![sandbox("s", 0, SandboxState::Ready)];
    let a = || container("1", "a", 0, ContainerState::Running);
    let replaced = |policy: &str, seen: &ObservedPod, liveness| {
        let results = probe_results("a", "1", None, liveness);
        let statuses = plan(&two(policy), seen, &results).replaced(seen);
        statuses.iter().map(|status| status.id.as_str().to_owned()).collect::<Vec<_>>()
    };
    let seen = observed(ready(), vec![a(), container("2", "b", 0, ContainerState::Running)]);
    assert_eq!(replaced("OnFailure", &seen, Some(ProbeResult::Failure)), ["1"]);
    assert_eq!(replaced("Never", &seen, Some(ProbeResult::Failure)), [""; 0], "it is not started again");
    assert_eq!(replaced("Always", &seen, None), [""; 0]);
    let seen = observed(ready(), vec![a(), exited("2", "b", 0, 1)]);
    assert_eq!(replaced("OnFailure", &seen, None), [""; 0], "b has exited before");
    let seen = observed(vec![sandbox("s", 0, SandboxState::NotReady)], vec![a(), exited("2", "b", 0, 1)]);
    assert_eq!(replaced("OnFailure", &seen, None), ["1"], "a new sandbox replaces what runs");
}

#[test]
fn running_pod_needs_no_action() {
    let observed_pod = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Running)],
    );
    assert!(check(&one("Always"), &observed_pod).is_empty());
}

#[test]
fn exited_container_is_restarted_according_to_policy() {
    for (policy, code, restarts) in [
        ("Always", 0, true),
        ("Always", 1, true),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Never", 1, false),
    ] {
        let observed_pod = observed(
            vec![sandbox("s", 0, SandboxState::Ready)],
            vec![exited("1", "a", 0, code), container("2", "b", 0, ContainerState::Running)],
        );
        let expected: Vec<(&str, Option<u32>)> = if restarts { vec![("a", Some(1))] } else { vec![] };
        assert_eq!(starts(&check(&two(policy), &observed_pod)), expected, "{policy} {code}");
    }
}

#[test]
fn stops_sandbox_when_all_containers_have_finished() {
    let observed_pod = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![exited("1", "a", 0, 0)]);
    let actions = check(&one("Never"), &observed_pod);
    assert!(actions.stop_everything && actions.start.is_empty());
    let stopped = observed(vec![sandbox("s", 0, SandboxState::NotReady)], vec![exited("1", "a", 0, 0)]);
    assert!(check(&one("Never"), &stopped).is_empty());
    assert!(check(&one("OnFailure"), &stopped).is_empty());
}

#[test]
fn dead_sandbox_is_replaced_with_next_attempt() {
    let observed_pod = observed(
        vec![sandbox("s", 4, SandboxState::NotReady)],
        vec![container("1", "a", 2, ContainerState::Exited)],
    );
    let actions = check(&one("Always"), &observed_pod);
    assert_eq!(actions.sandbox, SandboxPlan::Create { attempt: 5, reason: SandboxReason::NotReady });
    assert_eq!(starts(&actions), [("a", Some(3))]);
    assert!(actions.stop_everything, "the dead sandbox keeps its IP");
}

#[test]
fn dead_sandbox_without_successor_is_stopped_once() {
    let observed_pod = observed(vec![sandbox("s", 0, SandboxState::NotReady)], vec![exited("1", "a", 0, 0)]);
    let stops = |stopped: &[SandboxId]| {
        let mut actions = check(&one("Never"), &observed_pod);
        actions.stop_dead_sandboxes(&observed_pod, stopped);
        actions.stop_everything
    };
    assert!(stops(&[]) && stops(&["r".into()]));
    assert!(!stops(&["s".into()]));
    // A sandbox in use is not dead.
    let running = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Running)],
    );
    let mut actions = check(&one("Never"), &running);
    actions.stop_dead_sandboxes(&running, &[]);
    assert!(actions.is_empty());
}

#[test]
fn unusable_sandbox_is_reported_by_event() {
    let reasons = [
        (SandboxReason::First, false),
        (SandboxReason::SeveralReady, true),
        (SandboxReason::NotReady, true),
        (SandboxReason::NetworkChanged, false),
        (SandboxReason::NoAddress, true),
    ];
    for (reason, expected) in reasons {
        assert_eq!(reason.has_event(), expected, "{reason:?}");
    }
}

#[test]
fn several_ready_sandboxes_changed_network_or_no_ip_need_new_sandbox() {
    let several =
        observed(vec![sandbox("t", 1, SandboxState::Ready), sandbox("s", 0, SandboxState::Ready)], vec![]);
    assert!(matches!(
        check(&one("Always"), &several).sandbox,
        SandboxPlan::Create { attempt: 2, reason: SandboxReason::SeveralReady }
    ));
    let mut other = sandbox("s", 0, SandboxState::Ready);
    other.network = NamespaceMode::Node;
    assert!(matches!(
        check(&one("Always"), &observed(vec![other], vec![])).sandbox,
        SandboxPlan::Create { reason: SandboxReason::NetworkChanged, .. }
    ));
    let mut other = sandbox("s", 0, SandboxState::Ready);
    other.ips = Some(Vec::new());
    assert!(matches!(
        check(&one("Always"), &observed(vec![other], vec![])).sandbox,
        SandboxPlan::Create { reason: SandboxReason::NoAddress, .. }
    ));
    // A runtime that does not report networks is trusted.
    let mut other = sandbox("s", 0, SandboxState::Ready);
    other.ips = None;
    assert_eq!(check(&one("Always"), &observed(vec![other], vec![])).sandbox, SandboxPlan::Keep("s".into()));
}

#[test]
fn pod_with_policy_never_gets_no_second_sandbox() {
    let observed_pod =
        observed(vec![sandbox("s", 0, SandboxState::NotReady)], vec![exited("1", "a", 0, 137)]);
    assert_eq!(check(&one("Never"), &observed_pod).sandbox, SandboxPlan::None);
}

#[test]
fn image_change_restarts_only_that_container_even_with_policy_never() {
    let pod = two("Never");
    let mut changed = container("1", "a", 0, ContainerState::Running);
    changed.annotations.insert(labels::CONTAINER_HASH.into(), "dead".into());
    let observed_pod = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![changed, container("2", "b", 0, ContainerState::Running)],
    );
    let actions = check(&pod, &observed_pod);
    assert_eq!(actions.kill.len(), 1);
    assert_eq!(actions.kill[0].message(), "Container a definition changed, will be restarted");
    assert_eq!(starts(&actions), [("a", Some(1))]);
}

#[test]
fn container_that_never_ran_is_recreated_with_same_restart_count() {
    let observed_pod = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Created)],
    );
    let actions = check(&one("Never"), &observed_pod);
    assert_eq!(actions.discard, ["1".into()]);
    assert_eq!(starts(&actions), [("a", Some(0))]);
}

#[test]
fn created_regular_container_overrides_older_init_failure() {
    let pod =
        pod(serde_json::json!({"restartPolicy": "Never", "initContainers": [{"name": "i", "image": "x"}],
        "containers": [{"name": "a", "image": "x"}]}));
    let mut failed = container("i1", "i", 1, ContainerState::Exited);
    failed.exit_code = 1;
    let created = container("a0", "a", 0, ContainerState::Created);
    let observed_pod = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![failed.clone(), created]);
    assert!(!is_finished(&pod, &observed_pod));
    assert!(is_finished(&pod, &observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![failed])));
}

#[test]
fn cancelled_start_is_repeated_but_failed_start_is_final() {
    let failed_start = |message: &str| {
        let mut status = exited("1", "a", 0, 128);
        status.started_at = Timestamp::ZERO;
        status.message = message.into();
        observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![status])
    };
    // Messages of containerd 1.6 and 2.x when the connection was closed at different moments of a start.
    for message in [
        "failed to create containerd task: failed to start shim: start failed: : context canceled",
        "failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown",
        "failed to create containerd task: failed to start shim: start failed: unix:///run/containerd/s/05c1: signal: killed: unknown",
        "failed to create containerd task: failed to create shim task: context canceled: unknown",
        "failed to create containerd task: failed to get task pid: context canceled: unknown",
        "failed to start containerd task \"1\": context canceled",
    ] {
        let cancelled = check(&one("Never"), &failed_start(message));
        assert_eq!(cancelled.discard, ["1".into()], "{message}");
        assert_eq!(starts(&cancelled), [("a", Some(0))], "{message}");
        assert!(!is_finished(&one("Never"), &failed_start(message)), "{message}");
    }
    for message in [
        "exec: \"nope\": executable file not found in $PATH",
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc did not \
         terminate successfully: signal: killed: unknown",
        "failed to create containerd task: failed to start shim: start failed: no space left on device: exit status 1",
        "failed to create containerd task: failed to create shim task: context deadline exceeded: unknown",
    ] {
        let failed = failed_start(message);
        assert!(check(&one("Never"), &failed).start.is_empty(), "{message}");
        assert!(is_finished(&one("Never"), &failed), "{message}");
    }
}

#[test]
fn container_in_unknown_state_is_killed_first() {
    let observed_pod = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Unknown)],
    );
    let actions = check(&one("Always"), &observed_pod);
    assert_eq!(actions.kill[0].reason, KillReason::UnknownState);
    assert_eq!(actions.kill[0].message(), "Container is in \"unknown\" state, try killing it before restart");
    assert_eq!(starts(&actions), [("a", Some(1))]);
}

#[test]
fn a_failed_liveness_probe_restarts_the_container() {
    let observed_pod = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Running)],
    );
    let actions =
        plan(&one("Always"), &observed_pod, &probe_results("a", "1", None, Some(ProbeResult::Failure)));
    assert_eq!(actions.kill[0].reason, KillReason::LivenessFailed);
    assert_eq!(actions.kill[0].message(), "Container a failed liveness probe, will be restarted");
    assert_eq!(starts(&actions), [("a", Some(1))]);
    // The result of another container does not count.
    assert!(
        plan(&one("Always"), &observed_pod, &probe_results("a", "0", None, Some(ProbeResult::Failure)))
            .is_empty()
    );
    let startup = probe_results("a", "1", Some(ProbeResult::Failure), None);
    let actions = plan(&one("OnFailure"), &observed_pod, &startup);
    assert_eq!(actions.kill[0].message(), "Container a failed startup probe, will be restarted");
}

#[test]
fn init_containers_run_in_order_before_regular_containers() {
    let pod = pod(serde_json::json!({"restartPolicy": "Never",
        "initContainers": [{"name": "i", "image": "x"}, {"name": "j", "image": "x"}],
        "containers": [{"name": "a", "image": "x"}]}));
    let ready = || vec![sandbox("s", 0, SandboxState::Ready)];
    assert_eq!(starts(&check(&pod, &observed(vec![], vec![]))), [("i", None)]);
    let observed_pod = observed(ready(), vec![container("1", "i", 0, ContainerState::Running)]);
    assert!(check(&pod, &observed_pod).is_empty());
    let observed_pod = observed(ready(), vec![exited("1", "i", 0, 0)]);
    assert_eq!(starts(&check(&pod, &observed_pod)), [("j", None)]);
    let observed_pod = observed(ready(), vec![exited("2", "j", 0, 0), exited("1", "i", 0, 0)]);
    assert_eq!(starts(&check(&pod, &observed_pod)), [("a", None)]);
    let observed_pod = observed(ready(), vec![exited("1", "i", 0, 1)]);
    assert!(check(&pod, &observed_pod).stop_everything);
}

/// A runtime that carries out all actions.
fn apply(pod: &Pod, observed: &ObservedPod, actions: &PodActions) -> ObservedPod {
    let mut next = observed.clone();
    let now = Timestamp::from_secs(1_000);
    let stop = |status: &mut ContainerStatus| {
        if matches!(status.state, ContainerState::Running | ContainerState::Unknown) {
            status.state = ContainerState::Exited;
            status.exit_code = 137;
            status.finished_at = now;
        }
    };
    if actions.stop_everything {
        next.containers.iter_mut().for_each(stop);
        next.sandboxes.iter_mut().for_each(|sandbox| sandbox.state = SandboxState::NotReady);
    }
    for kill in &actions.kill {
        next.containers.iter_mut().filter(|status| status.id == kill.id).for_each(stop);
    }
    let reset: Vec<_> = actions.reset.iter().map(|reset| &reset.id).collect();
    next.containers.retain(|status| {
        !actions.discard.contains(&status.id)
            && !actions.purge.contains(&status.id)
            && !reset.contains(&&status.id)
    });
    if let SandboxPlan::Create { attempt, .. } = actions.sandbox {
        let mut fresh = sandbox(&format!("s{attempt}"), attempt, SandboxState::Ready);
        fresh.network = if pod.is_host_network() { NamespaceMode::Node } else { NamespaceMode::Pod };
        next.sandboxes.insert(0, fresh);
    }
    let home = next.sandboxes.first().map(|sandbox| sandbox.id.clone());
    for start in &actions.start {
        let count = start.restart_count.unwrap_or(0);
        let mut fresh =
            container(&format!("{}-{count}", start.name), &start.name, count, ContainerState::Running);
        let spec = pod.container(&start.name).unwrap().container;
        fresh.annotations.insert(labels::CONTAINER_HASH.into(), as_annotation(container_hash(spec)));
        fresh.sandbox_id = home.clone().unwrap();
        if start.kind == ContainerKind::Ephemeral || start.kind == ContainerKind::Init && !is_sidecar(spec) {
            fresh.state = ContainerState::Exited;
            fresh.finished_at = now;
        }
        next.containers.insert(0, fresh);
    }
    next
}

fn any_state() -> impl Strategy<Value = ContainerState> {
    prop_oneof![
        Just(ContainerState::Created),
        Just(ContainerState::Running),
        Just(ContainerState::Exited),
        Just(ContainerState::Unknown)
    ]
}

fn any_observed() -> impl Strategy<Value = ObservedPod> {
    let sandboxes = proptest::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 0..3);
    let containers = proptest::collection::vec((0usize..6, any_state(), -1i32..4, any::<bool>()), 0..6);
    (sandboxes, containers).prop_map(|(sandboxes, containers)| {
        let count = u32::try_from(sandboxes.len()).unwrap();
        let sandboxes = sandboxes
            .into_iter()
            .zip((0..count).rev())
            .map(|((ready, ip, pod_network), attempt)| {
                let state = if ready { SandboxState::Ready } else { SandboxState::NotReady };
                let mut sandbox = sandbox(&format!("old{attempt}"), attempt, state);
                if !ip {
                    sandbox.ips = Some(Vec::new());
                }
                if !pod_network {
                    sandbox.network = NamespaceMode::Node;
                }
                sandbox
            })
            .collect();
        let count = u32::try_from(containers.len()).unwrap();
        let containers = containers
            .into_iter()
            .zip((0..count).rev())
            .map(|((name, state, code, changed), attempt)| {
                let name = ["a", "b", "i", "j", "k", "e"][name];
                let mut status = container(&format!("old-{name}-{attempt}"), name, attempt, state);
                status.exit_code = code;
                if changed {
                    status.annotations.insert(labels::CONTAINER_HASH.into(), "0".into());
                }
                status
            })
            .collect();
        observed(sandboxes, containers)
    })
}

fn any_policy() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")]
}

/// The container's own policy, with or without a rule.
fn any_own_policy() -> impl Strategy<Value = serde_json::Value> {
    let action = prop_oneof![Just("Restart"), Just("RestartAllContainers")];
    let operator = prop_oneof![Just("In"), Just("NotIn")];
    let rule = proptest::option::of((action, operator, proptest::collection::vec(0i32..4, 1..3)));
    proptest::option::of((any_policy(), rule)).prop_map(|own| match own {
        None => serde_json::json!({}),
        Some((policy, None)) => serde_json::json!({"restartPolicy": policy}),
        Some((policy, Some((action, operator, values)))) => serde_json::json!({"restartPolicy": policy,
            "restartPolicyRules": [
                {"action": action, "exitCodes": {"operator": operator, "values": values}}]}),
    })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let kinds = proptest::collection::vec(any::<bool>(), 0..4);
    (any_policy(), any::<bool>(), kinds, any_own_policy(), any::<bool>()).prop_map(
        |(policy, host, kinds, own, ephemeral)| {
            let init: Vec<_> = ["i", "j", "k"]
                .iter()
                .zip(kinds)
                .map(|(name, sidecar)| {
                    let mut container = serde_json::json!({"name": name, "image": "x"});
                    if sidecar {
                        container["restartPolicy"] = "Always".into();
                    }
                    container
                })
                .collect();
            let mut first = own;
            first["name"] = "a".into();
            first["image"] = "x".into();
            let more = if ephemeral {
                serde_json::json!([{"name": "e", "image": "x"}])
            } else {
                serde_json::json!([])
            };
            pod(serde_json::json!({"restartPolicy": policy, "hostNetwork": host, "initContainers": init,
                "containers": [first, {"name": "b", "image": "y"}], "ephemeralContainers": more}))
        },
    )
}

proptest! {
    /// Plans converge if the runtime carries them out.
    #[test]
    fn plans_converge(pod in any_pod(), start in any_observed()) {
        let mut observed_pod = start;
        for _ in 0..12 {
            let actions = plan(&pod, &observed_pod, &ProbeResults::new());
            if actions.is_empty() {
                break;
            }
            observed_pod = apply(&pod, &observed_pod, &actions);
        }
        let rest = plan(&pod, &observed_pod, &ProbeResults::new());
        prop_assert!(rest.is_empty(), "does not converge: {rest:?} in {observed_pod:?}");
        // After convergence each container has at most one running instance, and the pod at most one ready sandbox.
        for name in pod.containers().map(|entry| entry.container.name.as_str()) {
            prop_assert!(observed_pod.containers_named(name).filter(|s| s.state == ContainerState::Running).count() <= 1);
        }
        prop_assert!(observed_pod.sandboxes.iter().filter(|s| s.state == SandboxState::Ready).count() <= 1);
    }

    /// A healthy running container is never touched, and a new pod comes up in order.
    #[test]
    fn healthy_running_containers_are_not_touched(pod in any_pod()) {
        let mut observed_pod = observed(vec![], vec![]);
        let mut order = Vec::new();
        for _ in 0..12 {
            let actions = plan(&pod, &observed_pod, &ProbeResults::new());
            prop_assert!(actions.kill.is_empty() && !actions.stop_everything && actions.reset.is_empty());
            let expected = actions.start.iter().filter(|start| start.kind != ContainerKind::Ephemeral);
            order.extend(expected.map(|start| start.name.clone()));
            observed_pod = apply(&pod, &observed_pod, &actions);
        }
        let all: Vec<_> = pod.containers().map(|entry| entry.container.name.clone()).collect();
        prop_assert_eq!(order, all);
    }

    /// A regular container never starts before all init containers have completed.
    #[test]
    fn regular_containers_wait_for_init_containers(pod in any_pod(), observed_pod in any_observed()) {
        let actions = plan(&pod, &observed_pod, &ProbeResults::new());
        let init_pending = actions.start.iter().any(|start| {
            start.kind == ContainerKind::Init && !is_sidecar(pod.container(&start.name).unwrap().container)
        });
        let regular = actions.start.iter().any(|start| start.kind == ContainerKind::Regular);
        prop_assert!(!(init_pending && regular), "{actions:?}");
    }

    /// A finished pod starts no regular container.
    #[test]
    fn finished_pod_starts_no_regular_container(pod in any_pod(), observed_pod in any_observed()) {
        let actions = plan(&pod, &observed_pod, &ProbeResults::new());
        let keeps_sandbox = matches!(actions.sandbox, SandboxPlan::Keep(_));
        let regular = actions.start.iter().any(|start| start.kind == ContainerKind::Regular);
        prop_assert!(!(keeps_sandbox && regular && is_finished(&pod, &observed_pod)), "{actions:?}");
    }
}
