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
fn a_failed_init_container_is_retried_unless_the_policy_is_never() {
    for (policy, code, expected) in [
        ("Always", 1, Some("i")),
        ("OnFailure", 1, Some("i")),
        ("Always", 0, Some("j")),
        ("OnFailure", 0, Some("j")),
        ("Never", 0, Some("j")),
        ("Never", 1, None),
    ] {
        let pod = two_init(policy);
        let seen = observed(ready(), vec![exited("1", "i", 0, code)]);
        let actions = check(&pod, &seen);
        assert_eq!(names(&actions).first().copied(), expected, "{policy} {code}");
        assert_eq!(actions.stop_everything, expected.is_none(), "{policy} {code}");
        assert_eq!(is_finished(&pod, &seen), expected.is_none(), "{policy} {code}");
    }
}

#[test]
fn running_out_of_memory_is_a_failure_whatever_the_exit_code() {
    let mut killed = exited("1", "i", 0, 0);
    killed.reason = "OOMKilled".into();
    let seen = observed(ready(), vec![killed]);
    assert_eq!(starts(&check(&two_init("Always"), &seen)), [("i", Some(1))]);
    assert!(check(&two_init("Never"), &seen).stop_everything);
}

#[test]
fn the_latest_known_init_container_decides_when_earlier_ones_are_forgotten() {
    let seen = observed(ready(), vec![exited("1", "j", 0, 0)]);
    assert_eq!(names(&check(&two_init("Always"), &seen)), ["a"]);
    let seen = observed(ready(), vec![running("1", "j")]);
    assert!(check(&two_init("Always"), &seen).is_empty());
}

#[test]
fn init_containers_never_run_again_after_a_regular_one_was_made_in_the_sandbox() {
    for regular in
        [running("1", "a"), exited("1", "a", 0, 1), container("1", "a", 0, ContainerState::Created)]
    {
        let seen = observed(ready(), vec![regular]);
        let again: Vec<_> = names(&check(&two_init("Always"), &seen))
            .into_iter()
            .filter(|name| *name != "a")
            .map(str::to_owned)
            .collect();
        assert!(again.is_empty(), "{again:?}");
    }
    // What ran in an earlier sandbox says nothing about this one.
    let mut old = exited("1", "a", 0, 1);
    old.sandbox_id = "old".into();
    assert_eq!(names(&check(&two_init("Always"), &observed(ready(), vec![old]))), ["i"]);
}

#[test]
fn an_init_container_in_an_unknown_state_is_replaced_or_ends_the_pod() {
    let seen = observed(ready(), vec![container("1", "i", 0, ContainerState::Unknown)]);
    let actions = check(&two_init("Always"), &seen);
    assert_eq!(
        actions.kill[0].message(),
        "Init container is in \"unknown\" state, try killing it before restart"
    );
    assert_eq!(starts(&actions), [("i", Some(1))]);
    assert!(check(&two_init("Never"), &seen).stop_everything);
}

#[test]
fn a_new_sandbox_begins_with_the_first_init_container_and_forgets_the_old_ones() {
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::NotReady)],
        vec![exited("3", "a", 0, 0), exited("2", "j", 0, 0), exited("1", "i", 0, 0)],
    );
    let actions = check(&two_init("Always"), &seen);
    assert_eq!(actions.purge, ["2".into(), "1".into()]);
    assert_eq!(starts(&actions), [("i", Some(1))]);
}

#[test]
fn what_follows_a_sidecar_waits_until_it_has_started() {
    let pod = sidecars();
    let seen = observed(ready(), vec![running("1", "i")]);
    assert!(check(&pod, &seen).is_empty());
    let started = verdicts("i", "1", Some(ProbeVerdict::Success), None);
    assert_eq!(names(&plan(&pod, &seen, &started)), ["j"]);
    let seen = observed(ready(), vec![exited("2", "j", 0, 0), running("1", "i")]);
    assert_eq!(names(&plan(&pod, &seen, &started)), ["k"]);
    // A sidecar without a startup probe has started when it runs.
    let seen = observed(ready(), vec![running("3", "k"), exited("2", "j", 0, 0), running("1", "i")]);
    assert_eq!(names(&plan(&pod, &seen, &started)), ["a"]);
}

#[test]
fn a_sidecar_is_restarted_in_every_phase_of_the_pod() {
    let pod = sidecars();
    let seen = observed(ready(), vec![running("2", "j"), exited("1", "i", 0, 0)]);
    assert_eq!(starts(&check(&pod, &seen)), [("i", Some(1))]);
    let all = |i: ContainerStatus| observed(ready(), vec![running("4", "a"), running("3", "k"), i]);
    assert_eq!(starts(&check(&pod, &all(exited("1", "i", 0, 1)))), [("i", Some(1))]);
    // The runtime has forgotten it.
    assert_eq!(
        starts(&check(&pod, &observed(ready(), vec![running("4", "a"), running("3", "k")]))),
        [("i", None)]
    );
    for (startup, liveness, message) in [
        (Some(ProbeVerdict::Failure), None, "Init container i failed startup probe"),
        (Some(ProbeVerdict::Success), Some(ProbeVerdict::Failure), "Init container i failed liveness probe"),
    ] {
        let actions = plan(&pod, &all(running("1", "i")), &verdicts("i", "1", startup, liveness));
        assert_eq!(actions.kill[0].message(), message);
        assert_eq!(starts(&actions), [("i", Some(1))]);
    }
    let mut changed = running("1", "i");
    changed.annotations.insert(labels::CONTAINER_HASH.into(), "dead".into());
    let actions = plan(&pod, &all(changed), &verdicts("i", "1", Some(ProbeVerdict::Success), None));
    assert_eq!(actions.kill[0].message(), "Init container i definition changed");
}

#[test]
fn a_sidecar_does_not_keep_a_pod_alive_and_ends_before_the_pod_is_over() {
    let pod = sidecars();
    let seen = observed(
        ready(),
        vec![exited("4", "a", 0, 0), running("3", "k"), exited("2", "j", 0, 0), exited("1", "i", 0, 0)],
    );
    let actions = check(&pod, &seen);
    assert!(actions.stop_everything && actions.start.is_empty() && actions.kill.is_empty());
    assert!(!is_finished(&pod, &seen));
    let over = apply(&pod, &seen, &actions);
    assert!(is_finished(&pod, &over));
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
    let seen = observed(ready(), vec![exited("2", "e", 0, 1), running("1", "i")]);
    assert!(check(&pod, &seen).is_empty());
}
