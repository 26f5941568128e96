use super::*;

fn with_rule(pod_policy: &str, own: &str, action: &str, operator: &str) -> Pod {
    pod(serde_json::json!({"restartPolicy": pod_policy,
        "containers": [
            {"name": "a", "image": "x", "restartPolicy": own, "restartPolicyRules": [
                {"action": action, "exitCodes": {"operator": operator, "values": [3, 42]}}]},
            {"name": "b", "image": "x"}]}))
}

fn with_exit_code(code: i32) -> ObservedPod {
    observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![container("2", "b", 0, ContainerState::Running), exited("1", "a", 0, code)],
    )
}

#[test]
fn own_policy_of_container_overrides_policy_of_pod() {
    for (pod_policy, own, code, restarts) in [
        ("Never", "Always", 0, true),
        ("Never", "OnFailure", 0, false),
        ("Never", "OnFailure", 1, true),
        ("Always", "Never", 1, false),
    ] {
        let pod = with_rule(pod_policy, own, "Restart", "In");
        assert_eq!(
            !check(&pod, &with_exit_code(code)).start.is_empty(),
            restarts,
            "{pod_policy} {own} {code}"
        );
    }
}

#[test]
fn restart_rules_override_all_policies() {
    for (operator, code, restarts) in
        [("In", 42, true), ("In", 1, false), ("NotIn", 42, false), ("NotIn", 1, true), ("NotIn", 0, true)]
    {
        let pod = with_rule("Never", "Never", "Restart", operator);
        assert_eq!(!check(&pod, &with_exit_code(code)).start.is_empty(), restarts, "{operator} {code}");
        assert_eq!(should_restart(&pod, &exited("1", "a", 0, code)), restarts, "{operator} {code}");
    }
}

#[test]
fn failed_probe_applies_policy_but_not_rules() {
    let running = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![
            container("2", "b", 0, ContainerState::Running),
            container("1", "a", 0, ContainerState::Running),
        ],
    );
    let failed = probe_results("a", "1", None, Some(ProbeResult::Failure));
    for (pod_policy, own, message) in [
        ("Never", "Always", "Container a failed liveness probe, will be restarted"),
        ("Always", "Never", "Container a failed liveness probe"),
    ] {
        let actions = plan(&with_rule(pod_policy, own, "Restart", "In"), &running, &failed);
        assert_eq!(actions.kill[0].message(), message);
    }
}

#[test]
fn restart_all_removes_triggering_container_last_and_keeps_sandbox() {
    let pod = with_rule("Never", "Never", "RestartAllContainers", "In");
    assert!(!restarts_all_containers(&pod, &with_exit_code(1)));
    let actions = check(&pod, &with_exit_code(42));
    assert_eq!(actions.sandbox, SandboxPlan::Keep("s".into()));
    let order: Vec<_> = actions.reset.iter().map(|reset| (reset.name.as_str(), reset.running)).collect();
    assert_eq!(order, [("b", true), ("a", false)]);
    assert!(actions.start.is_empty() && !is_finished(&pod, &with_exit_code(42)));
    // An agent that was killed in between finds the exited container and continues.
    let middle = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![exited("1", "a", 0, 42)]);
    assert_eq!(check(&pod, &middle).reset.len(), 1);
    let emptied = apply(&pod, &with_exit_code(42), &actions);
    assert_eq!(starts(&check(&pod, &emptied)), [("a", None), ("b", None)]);
}

#[test]
fn restart_all_reruns_init_containers() {
    let pod = pod(serde_json::json!({"restartPolicy": "Never",
        "initContainers": [{"name": "i", "image": "x"},
            {"name": "j", "image": "x", "restartPolicy": "Never", "restartPolicyRules": [
                {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}]}],
        "containers": [{"name": "a", "image": "x"}]}));
    let observed_pod = observed(
        vec![sandbox("s", 0, SandboxState::Ready)],
        vec![exited("2", "j", 0, 7), exited("1", "i", 0, 0)],
    );
    let actions = check(&pod, &observed_pod);
    assert_eq!(actions.reset.iter().map(|reset| reset.name.as_str()).collect::<Vec<_>>(), ["i", "j"]);
    assert_eq!(starts(&check(&pod, &apply(&pod, &observed_pod, &actions))), [("i", None)]);
}

#[test]
fn pod_with_policy_never_gets_new_sandbox_for_restartable_containers() {
    let lost = |pod: &Pod| {
        let observed_pod = observed(
            vec![sandbox("s", 0, SandboxState::NotReady)],
            vec![exited("2", "b", 0, 137), exited("1", "a", 0, 137)],
        );
        check(pod, &observed_pod)
    };
    assert_eq!(starts(&lost(&with_rule("Never", "Always", "Restart", "In"))), [("a", Some(1))]);
    assert!(lost(&two("Never")).is_empty());
}
