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
        restart_requested: false,
        orphan: false,
        problems: Default::default(),
        last_error: None,
        rejection: None,
    }
}

fn status(pod: &Pod, observed: &ObservedPod, worker: &WorkerView, previous: Option<&PodStatus>) -> PodStatus {
    pod_status(&Facts {
        pod,
        observed: Some(observed),
        worker: Some(worker),
        previous,
        host_addresses: &[IpAddr::from([192, 168, 0, 2])],
        runtime_name: "containerd",
        now: Timestamp::from_secs(50),
    })
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

#[test]
fn a_pod_that_was_stopped_ends_by_its_exit_codes() {
    let over = WorkerPhase::Terminated;
    assert_eq!(phase_of("Always", vec![exited("a", 0, 0), exited("b", 0, 0)], over), "Succeeded");
    assert_eq!(phase_of("Always", vec![exited("a", 0, 0), exited("b", 0, 137)], over), "Failed");
    assert_eq!(phase_of("Always", vec![], over), "Failed");
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
    let facts = Facts {
        pod: &pod,
        observed: Some(&seen),
        worker: None,
        previous: Some(&first),
        host_addresses: &[IpAddr::from([192, 168, 0, 2])],
        runtime_name: "containerd",
        now: Timestamp::from_secs(99),
    };
    assert_eq!(pod_status(&facts), first);
}

#[test]
fn host_network_pods_show_the_nodes_address() {
    let pod = pod(serde_json::json!({"hostNetwork": true, "containers": [{"name": "a", "image": "x"}]}));
    let status = status(&pod, &observed(vec![], vec![]), &worker(WorkerPhase::Syncing), None);
    assert_eq!(status.pod_ip.as_deref(), Some("192.168.0.2"));
    assert_eq!(status.host_ip.as_deref(), Some("192.168.0.2"));
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
