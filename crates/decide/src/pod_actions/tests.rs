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

fn verdicts(
    name: &str,
    id: &str,
    startup: Option<ProbeVerdict>,
    liveness: Option<ProbeVerdict>,
) -> ProbeVerdicts {
    let own = ContainerVerdicts { id: id.into(), startup, liveness, readiness: None };
    ProbeVerdicts::from([(name.to_owned(), own)])
}

fn check(pod: &Pod, observed: &ObservedPod) -> PodActions {
    plan(pod, observed, &ProbeVerdicts::new())
}

#[test]
fn a_new_pod_gets_a_sandbox_and_its_containers_in_order() {
    let actions = check(&two("Always"), &observed(vec![], vec![]));
    assert_eq!(actions.sandbox, SandboxPlan::Create { attempt: 0, reason: SandboxReason::First });
    assert_eq!(starts(&actions), [("a", None), ("b", None)]);
    assert!(!actions.stop_everything);
}

#[test]
fn a_running_pod_is_left_alone() {
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Running)],
    );
    assert!(check(&one("Always"), &seen).is_empty());
}

#[test]
fn a_dead_container_is_restarted_as_its_policy_says() {
    for (policy, code, restarts) in [
        ("Always", 0, true),
        ("Always", 1, true),
        ("OnFailure", 0, false),
        ("OnFailure", 1, true),
        ("Never", 1, false),
    ] {
        let seen = observed(
            vec![sandbox("s", 0, SandboxState::Ready)],
            vec![exited("1", "a", 0, code), container("2", "b", 0, ContainerState::Running)],
        );
        let expected: Vec<(&str, Option<u32>)> = if restarts { vec![("a", Some(1))] } else { vec![] };
        assert_eq!(starts(&check(&two(policy), &seen)), expected, "{policy} {code}");
    }
}

#[test]
fn a_pod_of_which_everything_ended_is_stopped_whole() {
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![exited("1", "a", 0, 0)]);
    let actions = check(&one("Never"), &seen);
    assert!(actions.stop_everything && actions.start.is_empty());
    let gone = observed(vec![sandbox("s", 0, SandboxState::NotReady)], vec![exited("1", "a", 0, 0)]);
    assert!(check(&one("Never"), &gone).is_empty());
    assert!(check(&one("OnFailure"), &gone).is_empty());
}

#[test]
fn a_dead_sandbox_is_replaced_with_the_next_attempt() {
    let seen = observed(
        vec![sandbox("s", 4, SandboxState::NotReady)],
        vec![container("1", "a", 2, ContainerState::Exited)],
    );
    let actions = check(&one("Always"), &seen);
    assert_eq!(actions.sandbox, SandboxPlan::Create { attempt: 5, reason: SandboxReason::NotReady });
    assert_eq!(starts(&actions), [("a", Some(3))]);
    assert!(actions.stop_everything, "the dead sandbox keeps its address");
}

#[test]
fn a_dead_sandbox_that_gets_no_successor_is_stopped_once() {
    let seen = observed(vec![sandbox("s", 0, SandboxState::NotReady)], vec![exited("1", "a", 0, 0)]);
    let stops = |stopped: &[SandboxId]| {
        let mut actions = check(&one("Never"), &seen);
        actions.stop_dead(&seen, stopped);
        actions.stop_everything
    };
    assert!(stops(&[]) && stops(&["r".into()]));
    assert!(!stops(&["s".into()]));
    // One that is used is not dead.
    let running = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Running)],
    );
    let mut actions = check(&one("Never"), &running);
    actions.stop_dead(&running, &[]);
    assert!(actions.is_empty());
}

#[test]
fn users_are_told_of_a_sandbox_that_was_not_fit_any_more() {
    let told = [
        (SandboxReason::First, false),
        (SandboxReason::SeveralReady, true),
        (SandboxReason::NotReady, true),
        (SandboxReason::NetworkChanged, false),
        (SandboxReason::NoAddress, true),
    ];
    for (reason, expected) in told {
        assert_eq!(reason.is_told(), expected, "{reason:?}");
    }
}

#[test]
fn two_ready_sandboxes_or_a_changed_network_or_no_address_need_a_new_one() {
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
    // A runtime that tells nothing of networks is believed.
    let mut other = sandbox("s", 0, SandboxState::Ready);
    other.ips = None;
    assert_eq!(check(&one("Always"), &observed(vec![other], vec![])).sandbox, SandboxPlan::Keep("s".into()));
}

#[test]
fn a_pod_that_must_not_restart_gets_no_second_sandbox() {
    let seen = observed(vec![sandbox("s", 0, SandboxState::NotReady)], vec![exited("1", "a", 0, 137)]);
    assert_eq!(check(&one("Never"), &seen).sandbox, SandboxPlan::None);
}

#[test]
fn an_image_change_restarts_only_that_container_even_under_never() {
    let pod = two("Never");
    let mut changed = container("1", "a", 0, ContainerState::Running);
    changed.annotations.insert(labels::CONTAINER_HASH.into(), "dead".into());
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![changed, container("2", "b", 0, ContainerState::Running)],
    );
    let actions = check(&pod, &seen);
    assert_eq!(actions.kill.len(), 1);
    assert_eq!(actions.kill[0].message(), "Container a definition changed, will be restarted");
    assert_eq!(starts(&actions), [("a", Some(1))]);
}

#[test]
fn a_container_left_half_made_by_a_killed_agent_is_made_again_with_the_same_count() {
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Created)],
    );
    let actions = check(&one("Never"), &seen);
    assert_eq!(actions.discard, ["1".into()]);
    assert_eq!(starts(&actions), [("a", Some(0))]);
}

#[test]
fn a_regular_container_that_was_made_outlives_the_memory_of_a_failed_init_container() {
    let pod =
        pod(serde_json::json!({"restartPolicy": "Never", "initContainers": [{"name": "i", "image": "x"}],
        "containers": [{"name": "a", "image": "x"}]}));
    let mut failed = container("i1", "i", 1, ContainerState::Exited);
    failed.exit_code = 1;
    let made = container("a0", "a", 0, ContainerState::Created);
    let seen = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![failed.clone(), made]);
    assert!(!is_finished(&pod, &seen));
    assert!(is_finished(&pod, &observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![failed])));
}

#[test]
fn a_start_that_was_cut_off_is_made_again_but_a_failed_start_is_an_end() {
    let ended = |message: &str| {
        let mut status = exited("1", "a", 0, 128);
        status.started_at = Timestamp::ZERO;
        status.message = message.into();
        observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![status])
    };
    // What containerd 1.6 and 2.x wrote when the connection was closed at some hundred moments of a start.
    for message in [
        "failed to create containerd task: failed to start shim: start failed: : context canceled",
        "failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown",
        "failed to create containerd task: failed to start shim: start failed: unix:///run/containerd/s/05c1: signal: killed: unknown",
        "failed to create containerd task: failed to create shim task: context canceled: unknown",
        "failed to create containerd task: failed to get task pid: context canceled: unknown",
        "failed to start containerd task \"1\": context canceled",
    ] {
        let cut = check(&one("Never"), &ended(message));
        assert_eq!(cut.discard, ["1".into()], "{message}");
        assert_eq!(starts(&cut), [("a", Some(0))], "{message}");
        assert!(!is_finished(&one("Never"), &ended(message)), "{message}");
    }
    for message in [
        "exec: \"nope\": executable file not found in $PATH",
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc did not \
         terminate successfully: signal: killed: unknown",
        "failed to create containerd task: failed to start shim: start failed: no space left on device: exit status 1",
        "failed to create containerd task: failed to create shim task: context deadline exceeded: unknown",
    ] {
        let failed = ended(message);
        assert!(check(&one("Never"), &failed).start.is_empty(), "{message}");
        assert!(is_finished(&one("Never"), &failed), "{message}");
    }
}

#[test]
fn a_container_in_an_unknown_state_is_killed_first() {
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Unknown)],
    );
    let actions = check(&one("Always"), &seen);
    assert_eq!(actions.kill[0].reason, KillReason::UnknownState);
    assert_eq!(actions.kill[0].message(), "Container is in \"unknown\" state, try killing it before restart");
    assert_eq!(starts(&actions), [("a", Some(1))]);
}

#[test]
fn a_failed_liveness_probe_restarts_the_container() {
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("1", "a", 0, ContainerState::Running)],
    );
    let actions = plan(&one("Always"), &seen, &verdicts("a", "1", None, Some(ProbeVerdict::Failure)));
    assert_eq!(actions.kill[0].reason, KillReason::LivenessFailed);
    assert_eq!(actions.kill[0].message(), "Container a failed liveness probe, will be restarted");
    assert_eq!(starts(&actions), [("a", Some(1))]);
    // A verdict about another container says nothing.
    assert!(plan(&one("Always"), &seen, &verdicts("a", "0", None, Some(ProbeVerdict::Failure))).is_empty());
    let startup = verdicts("a", "1", Some(ProbeVerdict::Failure), None);
    let actions = plan(&one("OnFailure"), &seen, &startup);
    assert_eq!(actions.kill[0].message(), "Container a failed startup probe, will be restarted");
}

#[test]
fn init_containers_run_one_after_the_other_before_the_regular_ones() {
    let pod = pod(serde_json::json!({"restartPolicy": "Never",
        "initContainers": [{"name": "i", "image": "x"}, {"name": "j", "image": "x"}],
        "containers": [{"name": "a", "image": "x"}]}));
    let ready = || vec![sandbox("s", 0, SandboxState::Ready)];
    assert_eq!(starts(&check(&pod, &observed(vec![], vec![]))), [("i", None)]);
    let seen = observed(ready(), vec![container("1", "i", 0, ContainerState::Running)]);
    assert!(check(&pod, &seen).is_empty());
    let seen = observed(ready(), vec![exited("1", "i", 0, 0)]);
    assert_eq!(starts(&check(&pod, &seen)), [("j", None)]);
    let seen = observed(ready(), vec![exited("2", "j", 0, 0), exited("1", "i", 0, 0)]);
    assert_eq!(starts(&check(&pod, &seen)), [("a", None)]);
    let seen = observed(ready(), vec![exited("1", "i", 0, 1)]);
    assert!(check(&pod, &seen).stop_everything);
}

/// A runtime that does what it is told.
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
    for order in &actions.start {
        let count = order.restart_count.unwrap_or(0);
        let mut fresh =
            container(&format!("{}-{count}", order.name), &order.name, count, ContainerState::Running);
        let spec = pod.container(&order.name).unwrap().container;
        fresh.annotations.insert(labels::CONTAINER_HASH.into(), as_annotation(container_hash(spec)));
        fresh.sandbox_id = home.clone().unwrap();
        if order.kind == ContainerKind::Ephemeral || order.kind == ContainerKind::Init && !is_sidecar(spec) {
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

/// A policy of the container's own, perhaps with a rule.
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
    /// Applying plans to an obedient runtime comes to rest.
    #[test]
    fn plans_converge(pod in any_pod(), start in any_observed()) {
        let mut seen = start;
        for _ in 0..12 {
            let actions = plan(&pod, &seen, &ProbeVerdicts::new());
            if actions.is_empty() {
                break;
            }
            seen = apply(&pod, &seen, &actions);
        }
        let rest = plan(&pod, &seen, &ProbeVerdicts::new());
        prop_assert!(rest.is_empty(), "still wants {rest:?} in {seen:?}");
        // At rest every container has one running instance at most, in one ready sandbox at most.
        for name in pod.containers().map(|entry| entry.container.name.as_str()) {
            prop_assert!(seen.containers_named(name).filter(|s| s.state == ContainerState::Running).count() <= 1);
        }
        prop_assert!(seen.sandboxes.iter().filter(|s| s.state == SandboxState::Ready).count() <= 1);
    }

    /// A healthy running container is never touched, and a new pod comes up in order.
    #[test]
    fn what_runs_as_wanted_is_not_touched(pod in any_pod()) {
        let mut seen = observed(vec![], vec![]);
        let mut order = Vec::new();
        for _ in 0..12 {
            let actions = plan(&pod, &seen, &ProbeVerdicts::new());
            prop_assert!(actions.kill.is_empty() && !actions.stop_everything && actions.reset.is_empty());
            let kept = actions.start.iter().filter(|start| start.kind != ContainerKind::Ephemeral);
            order.extend(kept.map(|start| start.name.clone()));
            seen = apply(&pod, &seen, &actions);
        }
        let all: Vec<_> = pod.containers().map(|entry| entry.container.name.clone()).collect();
        prop_assert_eq!(order, all);
    }

    /// A regular container never runs before every init container has done its part.
    #[test]
    fn nothing_regular_starts_before_its_time(pod in any_pod(), seen in any_observed()) {
        let actions = plan(&pod, &seen, &ProbeVerdicts::new());
        let init_pending = actions.start.iter().any(|start| {
            start.kind == ContainerKind::Init && !is_sidecar(pod.container(&start.name).unwrap().container)
        });
        let regular = actions.start.iter().any(|start| start.kind == ContainerKind::Regular);
        prop_assert!(!(init_pending && regular), "{actions:?}");
    }

    /// A pod that is over has nothing left to start.
    #[test]
    fn a_finished_pod_starts_nothing_in_its_sandbox(pod in any_pod(), seen in any_observed()) {
        let actions = plan(&pod, &seen, &ProbeVerdicts::new());
        let kept = matches!(actions.sandbox, SandboxPlan::Keep(_));
        let regular = actions.start.iter().any(|start| start.kind == ContainerKind::Regular);
        prop_assert!(!(kept && regular && is_finished(&pod, &seen)), "{actions:?}");
    }
}
