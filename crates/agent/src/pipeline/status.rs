//! Computes the status of every pod.
//!
//! A status is a pure function of spec, observation, worker and the last reported status (`decide::status::pod_status`).
//! This stage calls it for each pod whose inputs changed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use decide::pipeline::terminations::terminations;
use decide::pod_resources::allocation::resize_conditions;
use decide::runtime_spec::pod_paths::pod_cgroup;
use decide::status::pod_status::{
    PodStatusInputs, PodStatusNodeInputs, pod_status, previous_status, shows_cgroup,
};
use k8s_openapi::api::core::v1::{PodStatus, ResourceStatus};
use model::{CgroupLimits, Moment, NodeSettings, Pod, PodUid, ProbeResults, Replacement, WorkerView};
use ports::clock::Clock;
use ports::host::pod_cgroups::PodCgroups;
use timing::KeyReceiver;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::api_pods::{ApiPodChange, ApiPodsReader};
use crate::dynamic_resources::device_health::DeviceHealth;
use crate::metrics::Metrics;
use crate::node::node_view::NodeView;
use crate::node::runtime_health::RuntimeHealth;
use crate::pipeline::allocations::Allocations;
use crate::pipeline::cached_status::CachedStatus;
use crate::pipeline::observation::Observer;
use crate::pipeline::tables::{Reader, Writer};
use crate::pipeline::timeline::Timelines;

pub struct StatusDeps {
    /// UIDs of changed pods.
    pub changes: KeyReceiver<PodUid>,
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    pub replacements: Reader<Replacement>,
    pub allocations: Allocations,
    /// `None` without an API server, and when the health of devices is not shown.
    pub claimed_devices: Option<Arc<DeviceHealth>>,
    pub observer: Observer,
    pub probe_results: Reader<ProbeResults>,
    pub health: RuntimeHealth,
    pub api_pods: ApiPodsReader,
    pub api_pod_changes: KeyReceiver<ApiPodChange>,
    pub statuses: Writer<CachedStatus>,
    pub cgroups: Arc<dyn PodCgroups>,
    pub settings: Arc<NodeSettings>,
    pub node: PodStatusNodeInputs,
    /// The watched Node object, whose addresses become the host IPs of pods; `None` without an API server.
    pub api_node: Option<watch::Receiver<NodeView>>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub timelines: Arc<Timelines>,
}

/// Runs until cancelled.
pub async fn run(mut deps: StatusDeps, cancel: CancellationToken) {
    let mut changed = HashSet::new();
    deps.update_addresses();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            first = deps.changes.recv() => match first {
                Some(first) => {
                    changed.insert(first);
                }
                None => return,
            },
            Some(change) = deps.api_pod_changes.recv() => changed.extend(deps.static_pod_of_mirror(&change)),
            () = next_view(&mut deps.api_node) => changed.extend(deps.update_addresses()),
        }
        while let Some(more) = deps.changes.try_recv() {
            changed.insert(more);
        }
        for uid in changed.drain() {
            deps.refresh(&uid).await;
        }
    }
}

async fn next_view(view: &mut Option<watch::Receiver<NodeView>>) {
    let has_changed = match view {
        Some(view) => view.changed().await.is_ok(),
        None => false,
    };
    if !has_changed {
        std::future::pending::<()>().await;
    }
}

impl StatusDeps {
    /// Reads the addresses of the Node object. Returns all pods if they have changed.
    fn update_addresses(&mut self) -> Vec<PodUid> {
        let Some(view) = &mut self.api_node else { return Vec::new() };
        let addresses = view.borrow_and_update().host_ips();
        if addresses.is_empty() || addresses == self.node.addresses {
            return Vec::new();
        }
        self.node.addresses = addresses;
        self.desired.all().iter().map(|pod| pod.uid.clone()).collect()
    }

    /// The static pod whose mirror pod changed: the mirror pod has the status that an earlier run of the agent reported.
    fn static_pod_of_mirror(&self, change: &ApiPodChange) -> Option<PodUid> {
        self.api_pods.mirror(&change.full_name)?;
        let mut pods = self.desired.all().into_iter();
        pods.find(|pod| pod.is_static() && pod.full_name == change.full_name).map(|pod| pod.uid.clone())
    }

    async fn refresh(&self, uid: &PodUid) {
        let Some(pod) = self.desired.get(uid) else {
            self.statuses.remove(uid);
            self.metrics.starts.forget(uid);
            return;
        };
        // Read before the observation: a replacement is removed after its result was observed.
        let replacement = self.replacements.get(uid);
        let observed = self.observer.last(uid);
        if observed.as_ref().is_some_and(|row| row.moment == Moment::START) {
            // Listed but not observed yet: its containers would look lost.
            return;
        }
        let worker = self.workers.get(uid);
        let probe_results = self.probe_results.get(uid);
        let features = self.health.now().features;
        let cached = self.statuses.reader().get(uid);
        let own = cached.as_ref().map(|cached| cached.read());
        let mirror = if pod.is_static() { self.api_pods.mirror_of(&pod) } else { None };
        let reported = mirror.as_ref().map_or(&pod.status, |mirror| &mirror.status);
        let previous = previous_status(own.as_ref(), reported);
        if own.is_none() {
            self.metrics.starts.seen(uid, &pod.status);
        }
        let pod = self.allocations.allocated(&pod);
        let cgroup = self.cgroup(&pod).await;
        let resize =
            self.allocations.get(uid).map(|allocation| resize_conditions(&allocation)).unwrap_or_default();
        let status = pod_status(&PodStatusInputs {
            pod: &pod,
            observed: observed.as_deref(),
            worker: worker.as_deref(),
            replacement: replacement.as_deref(),
            probe_results: probe_results.as_deref(),
            previous,
            own: own.as_ref(),
            resize: &resize,
            actuated: self.allocations.actuated(uid).as_ref(),
            cgroup: cgroup.as_ref(),
            resource_health: &self.resource_health(&pod),
            handlers: &features.handlers,
            node: &self.node,
            now: self.clock.now(),
        });
        let new = CachedStatus::of(&status);
        if cached.as_deref() == Some(&new) {
            return;
        }
        if let Some(previous) = previous {
            for end in terminations(previous, &status) {
                self.metrics.containers.terminated(end.kind, end.exit_code, &end.reason);
            }
        }
        let old_phase = previous.and_then(|status| status.phase.as_deref());
        if old_phase != status.phase.as_deref() {
            tracing::info!(pod = %pod.full_name, phase = status.phase.as_deref().unwrap_or_default(), "pod phase changed");
            if old_phase.is_none_or(|phase| phase == "Pending") && status.phase.as_deref() == Some("Running")
            {
                self.metrics.starts.running(&self.metrics.pods, &pod, &status, self.clock.now());
            }
        }
        if is_ready(&status) {
            self.timelines.record_ready(uid);
        }
        self.statuses.set(uid, Arc::new(new));
    }

    /// Devices of plugins, followed by those of claims.
    fn resource_health(&self, pod: &Pod) -> BTreeMap<String, Vec<ResourceStatus>> {
        if !self.settings.gates.resource_health {
            return BTreeMap::new();
        }
        let mut health = self.allocations.managed().devices().resource_health(&pod.uid);
        let claimed = self.claimed_devices.iter().flat_map(|devices| devices.of_pod(pod));
        for (container, devices) in claimed {
            health.entry(container).or_default().extend(devices);
        }
        health
    }

    /// The limits of the pod's cgroup, if its status includes them.
    async fn cgroup(&self, pod: &Pod) -> Option<CgroupLimits> {
        let path = pod_cgroup(pod, &self.settings);
        if path.is_empty() || !shows_cgroup(pod, &self.node) {
            return None;
        }
        match self.cgroups.limits(&path).await {
            Ok(limits) => Some(limits),
            Err(error) => {
                tracing::debug!(pod = %pod.full_name, %error, source = %error.source, "failed to read the pod's cgroup limits");
                None
            }
        }
    }
}

fn is_ready(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
