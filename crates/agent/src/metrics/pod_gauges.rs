//! Gauges of pods and containers, read from the published tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    ContainerState, ObservedPod, Pod, PodAllocation, SandboxState, WorkerPhase, WorkerPodKind, WorkerView,
};

use crate::cluster::api_pods::ApiPodsReader;
use crate::metrics::{Collect, Page, to_gauge};
use crate::pipeline::allocations::Allocations;
use crate::pipeline::observation::Observer;
use crate::pipeline::tables::Reader;

pub struct PodGauges {
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    pub observer: Observer,
    pub api_pods: ApiPodsReader,
    pub allocations: Allocations,
    pub node: String,
}

impl Collect for PodGauges {
    fn collect(&self, page: &mut Page) {
        page.gauges(("kubelet_node_name", "The node's name; always 1"), ["node"], [([&*self.node], 1.0)]);
        let mirrors = self.api_pods.mirrors().len();
        page.gauge("kubelet_mirror_pods", "Mirror pods at the API server", to_gauge(mirrors));
        let desired = self.desired.all();
        write_desired(page, &desired, |pod| self.is_active(pod));
        write_workers(page, &self.workers.all(), |view| self.desired.get(&view.uid).is_some());
        write_observed(page, &self.observer.all());
        let allocations: Vec<_> = desired.iter().filter_map(|pod| self.allocations.get(&pod.uid)).collect();
        write_resizes(page, &allocations);
    }
}

impl PodGauges {
    /// Whether the pod uses resources of the node.
    fn is_active(&self, pod: &Pod) -> bool {
        self.workers.get(&pod.uid).is_none_or(|view| view.phase < WorkerPhase::Terminated)
    }
}

fn write_desired(page: &mut Page, desired: &[Arc<Pod>], is_active: impl Fn(&Pod) -> bool) {
    let by_origin = |keep: &dyn Fn(&Pod) -> bool| {
        ["true", ""].map(|label| {
            let matches = |pod: &&Arc<Pod>| pod.is_static() == (label == "true") && keep(pod);
            ([label], to_gauge(desired.iter().filter(matches).count()))
        })
    };
    page.gauges(("kubelet_desired_pods", "Desired pods"), ["static"], by_origin(&|_| true));
    let active = by_origin(&is_active);
    page.gauges(("kubelet_active_pods", "Pods that use resources of the node"), ["static"], active);
    let ephemeral = desired.iter().map(|pod| pod.ephemeral.len()).sum();
    page.gauge(
        "kubelet_managed_ephemeral_containers",
        "Ephemeral containers of desired pods",
        to_gauge(ephemeral),
    );
}

fn write_workers(page: &mut Page, workers: &[Arc<WorkerView>], is_desired: impl Fn(&WorkerView) -> bool) {
    let mut counts = BTreeMap::new();
    for lifecycle in ["sync", "terminating", "terminated"] {
        for config in ["desired", "orphan"] {
            counts.extend(["", "true"].map(|is_static| ([config, lifecycle, is_static], 0)));
        }
        counts.insert(["runtime_only", lifecycle, "unknown"], 0);
    }
    for view in workers {
        let lifecycle = match view.phase {
            WorkerPhase::Syncing => "sync",
            WorkerPhase::Terminating => "terminating",
            WorkerPhase::Terminated | WorkerPhase::Finished => "terminated",
        };
        let config = if is_desired(view) { "desired" } else { "orphan" };
        let (config, is_static) = match view.pod_kind {
            WorkerPodKind::Orphan => ("runtime_only", "unknown"),
            WorkerPodKind::StaticPod => (config, "true"),
            WorkerPodKind::ApiPod => (config, ""),
        };
        *counts.entry([config, lifecycle, is_static]).or_insert(0) += 1;
    }
    let about =
        ("kubelet_working_pods", "Pods by the phase of their worker and by whether a source wants them");
    let rows = counts.into_iter().map(|(labels, count)| (labels, to_gauge(count)));
    page.gauges(about, ["config", "lifecycle", "static"], rows);
}

fn write_observed(page: &mut Page, rows: &[Arc<ObservedPod>]) {
    let ready =
        |row: &&Arc<ObservedPod>| row.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
    let running = to_gauge(rows.iter().filter(ready).count());
    page.gauge("kubelet_running_pods", "Pods with a ready sandbox", running);
    let states = [
        (ContainerState::Created, "created"),
        (ContainerState::Running, "running"),
        (ContainerState::Exited, "exited"),
        (ContainerState::Unknown, "unknown"),
    ];
    let counts = states.map(|(state, label)| {
        let containers = rows.iter().flat_map(|row| &row.containers);
        ([label], to_gauge(containers.filter(|container| container.state == state).count()))
    });
    page.gauges(("kubelet_running_containers", "Containers by state"), ["container_state"], counts);
}

fn write_resizes(page: &mut Page, allocations: &[Arc<PodAllocation>]) {
    let pending = ["Deferred", "Infeasible"].map(|reason| {
        let waits = |own: &&Arc<PodAllocation>| {
            own.pending.as_ref().is_some_and(|condition| condition.reason == reason)
        };
        (reason.to_lowercase(), to_gauge(allocations.iter().filter(waits).count()))
    });
    let about = ("kubelet_pod_pending_resizes", "Resizes that are pending, by reason");
    page.gauges(about, ["reason"], pending.iter().map(|(reason, count)| ([reason.as_str()], *count)));
    let in_progress = allocations.iter().filter(|own| own.in_progress.is_some()).count();
    page.gauge("kubelet_pod_in_progress_resizes", "Resizes that are being actuated", to_gauge(in_progress));
}

#[cfg(test)]
mod tests;
