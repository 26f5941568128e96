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
    let arguments = ["podward", "get", "pods"].into_iter().chain(line.split_whitespace());
    let parsed = crate::command::arguments::CommandLine::try_parse_from(arguments).unwrap();
    match parsed.command {
        crate::command::arguments::Command::Get(get) => get,
        _ => panic!(),
    }
}

#[test]
fn prints_pods_as_kubectl() {
    let pod = pod(json!({"phase": "Running", "podIP": "10.0.0.2", "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [container("a", true, 0, json!({"running": {}})),
            {"name": "b", "image": "x", "imageID": "", "ready": false, "restartCount": 3,
             "state": {"waiting": {"reason": "CrashLoopBackOff"}},
             "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:01:00Z"}}}]}));
    let arguments = arguments("");
    let filter = PodFilter::new(&arguments).unwrap();
    let mut table = filter.table(&arguments);
    table.add_row(filter.row(&pod, NOW));
    let text = table.take_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "NAMESPACE   NAME       READY   STATUS             RESTARTS      AGE   IP");
    assert_eq!(lines[1], "default     web-node   1/2     CrashLoopBackOff   3 (10s ago)   70s   10.0.0.2");
}

#[test]
fn columns_depend_on_flags() {
    let pod = pod(json!({"phase": "Pending"}));
    let output = |line: &str| {
        let arguments = arguments(line);
        let filter = PodFilter::new(&arguments).unwrap();
        let mut table = filter.table(&arguments);
        table.add_row(filter.row(&pod, NOW));
        table.take_text()
    };
    assert!(output("-n default").starts_with("NAME "));
    assert!(output("-o wide").lines().next().unwrap().ends_with("QOS   SOURCE   IMAGES"));
    assert!(output("-o wide").contains("x,y"));
    assert_eq!(output("--no-headers").lines().count(), 1);
}

#[test]
fn filters_pods_by_namespace_name_and_label() {
    let pod = pod(json!({}));
    let matches = |line: &str| PodFilter::new(&arguments(line)).unwrap().matches(&pod);
    assert!(
        matches("") && matches("-A") && matches("-n default") && matches("web-node") && matches("-l app=web")
    );
    assert!(!matches("-n other") && !matches("other") && !matches("-l app!=web"));
}

#[test]
fn status_column_matches_kubectl() {
    let check = |status: Value, output: &str| assert_eq!(pod_summary(&pod(status), NOW).status, output);
    check(json!({"phase": "Pending"}), "Pending");
    check(json!({"phase": "Failed", "reason": "Evicted"}), "Evicted");
    let terminated = |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
    check(
        json!({"phase": "Succeeded", "containerStatuses": [container("a", false, 0, terminated(0, "Completed"))]}),
        "Completed",
    );
    check(
        json!({"phase": "Failed", "containerStatuses": [container("a", false, 0, terminated(3, ""))]}),
        "ExitCode:3",
    );
    let mixed = [
        container("a", true, 0, json!({"running": {}})),
        container("b", false, 0, terminated(0, "Completed")),
    ];
    check(json!({"phase": "Running", "containerStatuses": mixed}), "NotReady");
    let waiting = container("a", false, 0, json!({"waiting": {"reason": "ContainerCreating"}}));
    check(json!({"phase": "Pending", "containerStatuses": [waiting]}), "ContainerCreating");
}

#[test]
fn status_column_counts_init_containers() {
    let mut pod = pod(json!({"phase": "Pending", "initContainerStatuses": [
        container("i", true, 0, json!({"terminated": {"exitCode": 0, "reason": "Completed"}})),
        container("j", false, 0, json!({"running": {}}))]}));
    pod.spec.as_mut().unwrap().init_containers =
        Some(serde_json::from_value(json!([{"name": "i"}, {"name": "j"}])).unwrap());
    assert_eq!(pod_summary(&pod, NOW).status, "Init:1/2");
    let status = pod.status.as_mut().unwrap();
    status.init_container_statuses.as_mut().unwrap()[1].state =
        Some(serde_json::from_value(json!({"waiting": {"reason": "CrashLoopBackOff"}})).unwrap());
    assert_eq!(pod_summary(&pod, NOW).status, "Init:CrashLoopBackOff");
}
