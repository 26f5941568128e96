use model::{PodSource, ResizeCondition, Timestamp};
use serde_json::json;
use testkit::builders::{self, worker_view};

use super::*;
use crate::metrics::Format;

fn pod(uid: &str, source: PodSource) -> Arc<Pod> {
    let spec = json!({"containers": [{"name": "c"}], "ephemeralContainers": [{"name": "debug"}]});
    Arc::new(builders::pod(uid, source, spec))
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
fn counts_desired_and_active_pods_by_source() {
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
fn counts_workers_by_lifecycle_and_config() {
    let workers = [
        worker_view("a", WorkerPhase::Syncing),
        WorkerView { pod_kind: WorkerPodKind::StaticPod, ..worker_view("b", WorkerPhase::Terminating) },
        WorkerView { pod_kind: WorkerPodKind::Orphan, ..worker_view("c", WorkerPhase::Terminated) },
        worker_view("d", WorkerPhase::Finished),
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
fn counts_pending_and_running_resizes() {
    let condition = |reason: &str| {
        let since = Timestamp::default();
        Some(ResizeCondition { reason: reason.into(), message: String::new(), since, generation: 1 })
    };
    let allocations = [
        PodAllocation { pending: condition("Deferred"), ..PodAllocation::default() },
        PodAllocation { in_progress: condition(""), ..PodAllocation::default() },
        PodAllocation::default(),
    ]
    .map(Arc::new);
    check(
        |page| write_resizes(page, &allocations),
        &[
            "kubelet_pod_pending_resizes{reason=\"deferred\"} 1",
            "kubelet_pod_pending_resizes{reason=\"infeasible\"} 0",
            "kubelet_pod_in_progress_resizes 1",
        ],
    );
}

#[test]
fn empty_node_shows_zeros() {
    check(
        |page| write_observed(page, &[]),
        &["kubelet_running_pods 0", "kubelet_running_containers{container_state=\"running\"} 0"],
    );
}
