use k8s_openapi::api::core::v1 as core;
use model::{PodFullName, PodSource, ResizeCondition, Timestamp};
use serde_json::json;

use super::*;
use crate::metrics::Format;

fn pod(uid: &str, source: PodSource) -> Arc<Pod> {
    let object: core::Pod = serde_json::from_value(json!({
        "metadata": {"uid": uid, "name": uid},
        "spec": {"containers": [{"name": "c"}], "ephemeralContainers": [{"name": "debug"}]},
    }))
    .unwrap();
    Arc::new(Pod::from_object(object, source).unwrap())
}

fn view(uid: &str, phase: WorkerPhase) -> WorkerView {
    WorkerView {
        uid: uid.into(),
        full_name: PodFullName { namespace: "default".into(), name: uid.into() },
        phase,
        started: true,
        passed: true,
        restart_requested: false,
        orphan: false,
        is_static: false,
        problems: Default::default(),
        last_error: None,
        rejection: None,
    }
}

fn check(write: impl FnOnce(&mut Page), lines: &[&str]) {
    let mut page = Page::new(Format::Text);
    write(&mut page);
    let text = page.into_text();
    for line in lines {
        assert!(text.lines().any(|shown| shown == *line), "{line} in {text}");
    }
}

#[test]
fn desired_and_active_pods_are_told_by_origin() {
    let pods = [pod("a", PodSource::File), pod("b", PodSource::Api), pod("c", PodSource::Api)];
    check(
        |page| write_desired(page, &pods, |pod| pod.uid.as_str() != "c"),
        &[
            "kubelet_desired_pods{static=\"true\"} 1",
            "kubelet_desired_pods{static=\"\"} 2",
            "kubelet_active_pods{static=\"true\"} 1",
            "kubelet_active_pods{static=\"\"} 1",
            "kubelet_managed_ephemeral_containers 3",
        ],
    );
}

#[test]
fn workers_are_told_by_lifecycle_and_by_who_wants_them() {
    let workers = [
        view("a", WorkerPhase::Syncing),
        WorkerView { is_static: true, ..view("b", WorkerPhase::Terminating) },
        WorkerView { orphan: true, ..view("c", WorkerPhase::Terminated) },
        view("d", WorkerPhase::Finished),
    ]
    .map(Arc::new);
    check(
        |page| write_workers(page, &workers, |view| view.uid.as_str() != "b"),
        &[
            "kubelet_working_pods{config=\"desired\",lifecycle=\"sync\",static=\"\"} 1",
            "kubelet_working_pods{config=\"desired\",lifecycle=\"sync\",static=\"true\"} 0",
            "kubelet_working_pods{config=\"desired\",lifecycle=\"terminated\",static=\"\"} 1",
            "kubelet_working_pods{config=\"orphan\",lifecycle=\"terminating\",static=\"true\"} 1",
            "kubelet_working_pods{config=\"runtime_only\",lifecycle=\"terminated\",static=\"unknown\"} 1",
        ],
    );
}

#[test]
fn resizes_are_told_while_they_wait_or_work() {
    let condition = |reason: &str| {
        let since = Timestamp::default();
        Some(ResizeCondition { reason: reason.into(), message: String::new(), since, generation: 1 })
    };
    let granted = [
        PodAllocation { pending: condition("Deferred"), ..PodAllocation::default() },
        PodAllocation { in_progress: condition(""), ..PodAllocation::default() },
        PodAllocation::default(),
    ]
    .map(Arc::new);
    check(
        |page| write_resizes(page, &granted),
        &[
            "kubelet_pod_pending_resizes{reason=\"deferred\"} 1",
            "kubelet_pod_pending_resizes{reason=\"infeasible\"} 0",
            "kubelet_pod_in_progress_resizes 1",
        ],
    );
}

#[test]
fn an_empty_node_shows_zeros() {
    check(
        |page| write_observed(page, &[]),
        &["kubelet_running_pods 0", "kubelet_running_containers{container_state=\"running\"} 0"],
    );
}
