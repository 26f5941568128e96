use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::from_secs(1_767_225_670);

#[expect(clippy::needless_pass_by_value, reason = "tests write the fields in place")]
fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "web-node", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]},
        "status": status,
    }))
    .unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the fields in place")]
fn container(name: &str, ready: bool, restarts: i32, state: Value) -> Value {
    json!({"name": name, "image": "x", "imageID": "", "ready": ready, "restartCount": restarts, "state": state})
}

fn arguments(line: &str) -> GetArguments {
    use clap::Parser;
    let words = ["podward", "get", "pods"].into_iter().chain(line.split_whitespace());
    let parsed = crate::command::arguments::CommandLine::try_parse_from(words).unwrap();
    match parsed.command {
        crate::command::arguments::Command::Get(get) => get,
        _ => panic!(),
    }
}

#[test]
fn pods_are_shown_as_kubectl_would() {
    let pod = pod(json!({"phase": "Running", "podIP": "10.0.0.2", "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [container("a", true, 0, json!({"running": {}})),
            {"name": "b", "image": "x", "imageID": "", "ready": false, "restartCount": 3,
             "state": {"waiting": {"reason": "CrashLoopBackOff"}},
             "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:01:00Z"}}}]}));
    let arguments = arguments("");
    let filter = Filter::new(&arguments).unwrap();
    let mut table = filter.table(&arguments);
    table.add_row(filter.row(&pod, NOW));
    let text = table.take_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "NAMESPACE   NAME       READY   STATUS             RESTARTS      AGE   IP");
    assert_eq!(lines[1], "default     web-node   1/2     CrashLoopBackOff   3 (10s ago)   70s   10.0.0.2");
}

#[test]
fn columns_follow_the_flags() {
    let pod = pod(json!({"phase": "Pending"}));
    let shown = |line: &str| {
        let arguments = arguments(line);
        let filter = Filter::new(&arguments).unwrap();
        let mut table = filter.table(&arguments);
        table.add_row(filter.row(&pod, NOW));
        table.take_text()
    };
    assert!(shown("-n default").starts_with("NAME "));
    assert!(shown("-o wide").lines().next().unwrap().ends_with("QOS   SOURCE   IMAGES"));
    assert!(shown("-o wide").contains("x,y"));
    assert_eq!(shown("--no-headers").lines().count(), 1);
}

#[test]
fn pods_are_chosen_by_namespace_name_and_label() {
    let pod = pod(json!({}));
    let takes = |line: &str| Filter::new(&arguments(line)).unwrap().takes(&pod);
    assert!(takes("") && takes("-A") && takes("-n default") && takes("web-node") && takes("-l app=web"));
    assert!(!takes("-n other") && !takes("other") && !takes("-l app!=web"));
}

#[test]
fn states_have_kubectls_words() {
    let check = |status: Value, word: &str| assert_eq!(pod_state(&pod(status), NOW).status, word);
    check(json!({"phase": "Pending"}), "Pending");
    check(json!({"phase": "Failed", "reason": "Evicted"}), "Evicted");
    let ended = |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
    check(
        json!({"phase": "Succeeded", "containerStatuses": [container("a", false, 0, ended(0, "Completed"))]}),
        "Completed",
    );
    check(
        json!({"phase": "Failed", "containerStatuses": [container("a", false, 0, ended(3, ""))]}),
        "ExitCode:3",
    );
    let mixed =
        [container("a", true, 0, json!({"running": {}})), container("b", false, 0, ended(0, "Completed"))];
    check(json!({"phase": "Running", "containerStatuses": mixed}), "NotReady");
    let waiting = container("a", false, 0, json!({"waiting": {"reason": "ContainerCreating"}}));
    check(json!({"phase": "Pending", "containerStatuses": [waiting]}), "ContainerCreating");
}

#[test]
fn init_containers_are_counted() {
    let mut pod = pod(json!({"phase": "Pending", "initContainerStatuses": [
        container("i", true, 0, json!({"terminated": {"exitCode": 0, "reason": "Completed"}})),
        container("j", false, 0, json!({"running": {}}))]}));
    pod.spec.as_mut().unwrap().init_containers =
        Some(serde_json::from_value(json!([{"name": "i"}, {"name": "j"}])).unwrap());
    assert_eq!(pod_state(&pod, NOW).status, "Init:1/2");
    let status = pod.status.as_mut().unwrap();
    status.init_container_statuses.as_mut().unwrap()[1].state =
        Some(serde_json::from_value(json!({"waiting": {"reason": "CrashLoopBackOff"}})).unwrap());
    assert_eq!(pod_state(&pod, NOW).status, "Init:CrashLoopBackOff");
}
