use super::*;

fn with_rule(pod_policy: &str, own: &str, action: &str, operator: &str) -> Pod {
    pod(serde_json::json!({"restartPolicy": pod_policy,
        "containers": [
            {"name": "a", "image": "x", "restartPolicy": own, "restartPolicyRules": [
                {"action": action, "exitCodes": {"operator": operator, "values": [3, 42]}}]},
            {"name": "b", "image": "x"}]}))
}

fn seen(code: i32) -> ObservedPod {
    observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("2", "b", 0, ContainerState::Running), exited("1", "a", 0, code)],
    )
}

#[test]
fn a_containers_own_policy_comes_before_the_pods() {
    for (pod_policy, own, code, restarts) in [
        ("Never", "Always", 0, true),
        ("Never", "OnFailure", 0, false),
        ("Never", "OnFailure", 1, true),
        ("Always", "Never", 1, false),
    ] {
        let pod = with_rule(pod_policy, own, "Restart", "In");
        assert_eq!(!check(&pod, &seen(code)).start.is_empty(), restarts, "{pod_policy} {own} {code}");
    }
}

#[test]
fn rules_come_before_every_policy() {
    for (operator, code, restarts) in
        [("In", 42, true), ("In", 1, false), ("NotIn", 42, false), ("NotIn", 1, true), ("NotIn", 0, true)]
    {
        let pod = with_rule("Never", "Never", "Restart", operator);
        assert_eq!(!check(&pod, &seen(code)).start.is_empty(), restarts, "{operator} {code}");
        assert_eq!(should_restart(&pod, &exited("1", "a", 0, code)), restarts, "{operator} {code}");
    }
}

#[test]
fn a_probe_that_gave_up_asks_the_containers_policy_only() {
    let running = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![
            container("2", "b", 0, ContainerState::Running),
            container("1", "a", 0, ContainerState::Running),
        ],
    );
    let failed = verdicts("a", "1", None, Some(ProbeVerdict::Failure));
    for (pod_policy, own, message) in [
        ("Never", "Always", "Container a failed liveness probe, will be restarted"),
        ("Always", "Never", "Container a failed liveness probe"),
    ] {
        let actions = plan(&with_rule(pod_policy, own, "Restart", "In"), &running, &failed);
        assert_eq!(actions.kill[0].message(), message);
    }
}

#[test]
fn restart_all_removes_everything_with_its_cause_last_and_keeps_the_sandbox() {
    let pod = with_rule("Never", "Never", "RestartAllContainers", "In");
    assert!(!all_containers_restart(&pod, &seen(1)));
    let actions = check(&pod, &seen(42));
    assert_eq!(actions.sandbox, SandboxPlan::Keep("s".into()));
    let order: Vec<_> = actions.reset.iter().map(|reset| (reset.name.as_str(), reset.running)).collect();
    assert_eq!(order, [("b", true), ("a", false)]);
    assert!(actions.start.is_empty() && !is_finished(&pod, &seen(42)));
    // An agent that is killed in the middle finds the cause and goes on.
    let middle = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![exited("1", "a", 0, 42)]);
    assert_eq!(check(&pod, &middle).reset.len(), 1);
    let emptied = apply(&pod, &seen(42), &actions);
    assert_eq!(starts(&check(&pod, &emptied)), [("a", None), ("b", None)]);
}

#[test]
fn restart_all_also_runs_init_containers_again() {
    let pod = pod(serde_json::json!({"restartPolicy": "Never",
        "initContainers": [{"name": "i", "image": "x"},
            {"name": "j", "image": "x", "restartPolicy": "Never", "restartPolicyRules": [
                {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}]}],
        "containers": [{"name": "a", "image": "x"}]}));
    let seen = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![exited("2", "j", 0, 7), exited("1", "i", 0, 0)],
    );
    let actions = check(&pod, &seen);
    assert_eq!(actions.reset.iter().map(|reset| reset.name.as_str()).collect::<Vec<_>>(), ["i", "j"]);
    assert_eq!(starts(&check(&pod, &apply(&pod, &seen, &actions))), [("i", None)]);
}

#[test]
fn a_pod_whose_containers_restart_by_themselves_gets_a_new_sandbox_under_never() {
    let lost = |pod: &Pod| {
        let seen = observed(
            vec![sandbox("s", 0, SandboxState::NotReady)],
            vec![exited("2", "b", 0, 137), exited("1", "a", 0, 137)],
        );
        check(pod, &seen)
    };
    assert_eq!(starts(&lost(&with_rule("Never", "Always", "Restart", "In"))), [("a", Some(1))]);
    assert!(lost(&two("Never")).is_empty());
}
