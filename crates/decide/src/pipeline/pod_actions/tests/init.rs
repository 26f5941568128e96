use super::*;

fn ready() -> Vec<model::SandboxStatus> {
    vec![sandbox("s", 0, SandboxState::Ready)]
}

fn two_init(policy: &str) -> Pod {
    pod(serde_json::json!({"restartPolicy": policy,
        "initContainers": [{"name": "i", "image": "x"}, {"name": "j", "image": "x"}],
        "containers": [{"name": "a", "image": "x"}]}))
}

/// A sidecar, a plain init container and another sidecar before one regular container.
fn sidecars() -> Pod {
    pod(serde_json::json!({"restartPolicy": "Never",
        "initContainers": [
            {"name": "i", "image": "x", "restartPolicy": "Always", "startupProbe": {}, "livenessProbe": {}},
            {"name": "j", "image": "x"},
            {"name": "k", "image": "x", "restartPolicy": "Always"}],
        "containers": [{"name": "a", "image": "x"}]}))
}

fn running(id: &str, name: &str) -> ContainerStatus {
    container(id, name, 0, ContainerState::Running)
}

fn names(actions: &PodActions) -> Vec<&str> {
    actions.start.iter().map(|start| start.name.as_str()).collect()
}

#[test]
fn failed_init_container_is_retried_unless_policy_is_never() {
    for (policy, code, expected) in [
        ("Always", 1, Some("i")),
        ("OnFailure", 1, Some("i")),
        ("Always", 0, Some("j")),
        ("OnFailure", 0, Some("j")),
        ("Never", 0, Some("j")),
        ("Never", 1, None),
    ] {
        let pod = two_init(policy);
        let observed_pod = observed(ready(), vec![exited("1", "i", 0, code)]);
        let actions = check(&pod, &observed_pod);
        assert_eq!(names(&actions).first().copied(), expected, "{policy} {code}");
        assert_eq!(actions.stop_everything, expected.is_none(), "{policy} {code}");
        assert_eq!(is_finished(&pod, &observed_pod), expected.is_none(), "{policy} {code}");
    }
}

#[test]
fn oom_kill_is_a_failure_whatever_the_exit_code() {
    let mut killed = exited("1", "i", 0, 0);
    killed.reason = "OOMKilled".into();
    let observed_pod = observed(ready(), vec![killed]);
    assert_eq!(starts(&check(&two_init("Always"), &observed_pod)), [("i", Some(1))]);
    assert!(check(&two_init("Never"), &observed_pod).stop_everything);
}

#[test]
fn last_listed_init_container_decides_when_earlier_ones_were_removed() {
    let observed_pod = observed(ready(), vec![exited("1", "j", 0, 0)]);
    assert_eq!(names(&check(&two_init("Always"), &observed_pod)), ["a"]);
    let observed_pod = observed(ready(), vec![running("1", "j")]);
    assert!(check(&two_init("Always"), &observed_pod).is_empty());
}

#[test]
fn init_containers_do_not_rerun_after_regular_container_was_created() {
    for regular in
        [running("1", "a"), exited("1", "a", 0, 1), container("1", "a", 0, ContainerState::Created)]
    {
        let observed_pod = observed(ready(), vec![regular]);
        let again: Vec<_> = names(&check(&two_init("Always"), &observed_pod))
            .into_iter()
            .filter(|name| *name != "a")
            .map(str::to_owned)
            .collect();
        assert!(again.is_empty(), "{again:?}");
    }
    // A container of an earlier sandbox does not count.
    let mut old = exited("1", "a", 0, 1);
    old.sandbox_id = "old".into();
    assert_eq!(names(&check(&two_init("Always"), &observed(ready(), vec![old]))), ["i"]);
}

#[test]
fn init_container_in_unknown_state_is_replaced_or_fails_pod() {
    let observed_pod = observed(ready(), vec![container("1", "i", 0, ContainerState::Unknown)]);
    let actions = check(&two_init("Always"), &observed_pod);
    assert_eq!(
        actions.kill[0].message(),
        "Init container is in \"unknown\" state, try killing it before restart"
    );
    assert_eq!(starts(&actions), [("i", Some(1))]);
    assert!(check(&two_init("Never"), &observed_pod).stop_everything);
}

#[test]
fn new_sandbox_purges_old_init_containers_and_starts_with_first() {
    let observed_pod = observed(
        vec![sandbox("s", 0, SandboxState::NotReady)],
        vec![exited("3", "a", 0, 0), exited("2", "j", 0, 0), exited("1", "i", 0, 0)],
    );
    let actions = check(&two_init("Always"), &observed_pod);
    assert_eq!(actions.purge, ["2".into(), "1".into()]);
    assert_eq!(starts(&actions), [("i", Some(1))]);
}

#[test]
fn containers_after_sidecar_wait_until_it_has_started() {
    let pod = sidecars();
    let observed_pod = observed(ready(), vec![running("1", "i")]);
    assert!(check(&pod, &observed_pod).is_empty());
    let started = probe_results("i", "1", Some(ProbeResult::Success), None);
    assert_eq!(names(&plan(&pod, &observed_pod, &started)), ["j"]);
    let observed_pod = observed(ready(), vec![exited("2", "j", 0, 0), running("1", "i")]);
    assert_eq!(names(&plan(&pod, &observed_pod, &started)), ["k"]);
    // A sidecar without a startup probe has started as soon as it runs.
    let observed_pod = observed(ready(), vec![running("3", "k"), exited("2", "j", 0, 0), running("1", "i")]);
    assert_eq!(names(&plan(&pod, &observed_pod, &started)), ["a"]);
}

#[test]
fn sidecar_is_restarted_in_every_phase_of_the_pod() {
    let pod = sidecars();
    let observed_pod = observed(ready(), vec![running("2", "j"), exited("1", "i", 0, 0)]);
    assert_eq!(starts(&check(&pod, &observed_pod)), [("i", Some(1))]);
    let all = |i: ContainerStatus| observed(ready(), vec![running("4", "a"), running("3", "k"), i]);
    assert_eq!(starts(&check(&pod, &all(exited("1", "i", 0, 1)))), [("i", Some(1))]);
    // The runtime no longer lists it.
    assert_eq!(
        starts(&check(&pod, &observed(ready(), vec![running("4", "a"), running("3", "k")]))),
        [("i", None)]
    );
    for (startup, liveness, message) in [
        (Some(ProbeResult::Failure), None, "Init container i failed startup probe"),
        (Some(ProbeResult::Success), Some(ProbeResult::Failure), "Init container i failed liveness probe"),
    ] {
        let actions = plan(&pod, &all(running("1", "i")), &probe_results("i", "1", startup, liveness));
        assert_eq!(actions.kill[0].message(), message);
        assert_eq!(starts(&actions), [("i", Some(1))]);
    }
    let mut changed = running("1", "i");
    changed.annotations.insert(labels::CONTAINER_HASH.into(), "dead".into());
    let actions = plan(&pod, &all(changed), &probe_results("i", "1", Some(ProbeResult::Success), None));
    assert_eq!(actions.kill[0].message(), "Init container i definition changed");
}

#[test]
fn sidecar_does_not_keep_pod_alive_and_stops_before_pod_finishes() {
    let pod = sidecars();
    let observed_pod = observed(
        ready(),
        vec![exited("4", "a", 0, 0), running("3", "k"), exited("2", "j", 0, 0), exited("1", "i", 0, 0)],
    );
    let actions = check(&pod, &observed_pod);
    assert!(actions.stop_everything && actions.start.is_empty() && actions.kill.is_empty());
    assert!(!is_finished(&pod, &observed_pod));
    let stopped = apply(&pod, &observed_pod, &actions);
    assert!(is_finished(&pod, &stopped));
}

#[test]
fn ephemeral_containers_start_first_and_once() {
    let pod = pod(serde_json::json!({"initContainers": [{"name": "i", "image": "x"}],
        "containers": [{"name": "a", "image": "x"}],
        "ephemeralContainers": [{"name": "e", "image": "x", "targetContainerName": "a"}]}));
    // Not before there is a sandbox.
    assert_eq!(names(&check(&pod, &observed(vec![], vec![]))), ["i"]);
    let actions = check(&pod, &observed(ready(), vec![]));
    assert_eq!(names(&actions), ["e", "i"]);
    assert_eq!(actions.start[0].kind, ContainerKind::Ephemeral);
    let observed_pod = observed(ready(), vec![exited("2", "e", 0, 1), running("1", "i")]);
    assert!(check(&pod, &observed_pod).is_empty());
}
