//! Keeps the reported status of every pod up to date.
//!
//! A status is a pure function of spec, observation, worker and the last report (`decide::pod_status`); this
//! stage only calls it for pods of which one of these changed.

use std::collections::HashSet;
use std::sync::Arc;

use decide::allocation::resize_conditions;
use decide::pod_paths::pod_cgroup;
use decide::pod_status::{Facts, NodeFacts, base, pod_status, shows_cgroup};
use decide::terminations::terminations;
use k8s_openapi::api::core::v1::PodStatus;
use model::{CgroupLimits, Moment, NodeSettings, Pod, PodUid, ProbeVerdicts, WorkerView};
use ports::clock::Clock;
use ports::pod_cgroups::PodCgroups;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::allocations::Allocations;
use crate::api_pods::{ApiPodChange, ApiPodsReader};
use crate::kept_status::KeptStatus;
use crate::metrics::Metrics;
use crate::node_view::NodeView;
use crate::observation::Observer;
use crate::published::{Reader, Writer};
use crate::runtime_health::RuntimeHealth;
use crate::timeline::Timelines;

/// What the stage needs.
pub struct Parts {
    /// UIDs of pods of which something changed.
    pub changes: mpsc::UnboundedReceiver<PodUid>,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far workers are.
    pub workers: Reader<WorkerView>,
    /// What was granted to pods.
    pub allocations: Allocations,
    /// What the runtime holds.
    pub observer: Observer,
    /// What probes say.
    pub verdicts: Reader<ProbeVerdicts>,
    /// What the runtime can do.
    pub health: RuntimeHealth,
    /// What the API server shows.
    pub shown: ApiPodsReader,
    /// What changed there.
    pub shown_changes: mpsc::UnboundedReceiver<ApiPodChange>,
    /// Where statuses go.
    pub statuses: Writer<KeptStatus>,
    /// Where the limits of pods stand.
    pub cgroups: Arc<dyn PodCgroups>,
    /// How their cgroups are named.
    pub settings: Arc<NodeSettings>,
    /// What is the same for all pods.
    pub node: NodeFacts,
    /// The node as the API server shows it, whose addresses are those of pods' hosts; none without one.
    pub shown_node: Option<watch::Receiver<NodeView>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// How pods came to run.
    pub timelines: Arc<Timelines>,
}

/// Runs until cancelled.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    let mut changed = HashSet::new();
    parts.moved();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            first = parts.changes.recv() => match first {
                Some(first) => {
                    changed.insert(first);
                }
                None => return,
            },
            Some(change) = parts.shown_changes.recv() => changed.extend(parts.mirrored(&change)),
            () = next_view(&mut parts.shown_node) => changed.extend(parts.moved()),
        }
        while let Ok(more) = parts.changes.try_recv() {
            changed.insert(more);
        }
        for uid in changed.drain() {
            parts.refresh(&uid).await;
        }
    }
}

async fn next_view(view: &mut Option<watch::Receiver<NodeView>>) {
    let heard = match view {
        Some(view) => view.changed().await.is_ok(),
        None => false,
    };
    if !heard {
        std::future::pending::<()>().await;
    }
}

impl Parts {
    /// Takes the node's addresses; all pods if these are others than before.
    fn moved(&mut self) -> Vec<PodUid> {
        let Some(view) = &mut self.shown_node else { return Vec::new() };
        let addresses = view.borrow_and_update().host_ips();
        if addresses.is_empty() || addresses == self.node.addresses {
            return Vec::new();
        }
        self.node.addresses = addresses;
        self.desired.all().iter().map(|pod| pod.uid.clone()).collect()
    }

    /// The static pod whose mirror changed: what an agent before us said of it is known now.
    fn mirrored(&self, change: &ApiPodChange) -> Option<PodUid> {
        self.shown.mirror(&change.full_name)?;
        let mut pods = self.desired.all().into_iter();
        pods.find(|pod| pod.is_static() && pod.full_name == change.full_name).map(|pod| pod.uid.clone())
    }

    async fn refresh(&self, uid: &PodUid) {
        let Some(pod) = self.desired.get(uid) else {
            self.statuses.remove(uid);
            self.metrics.starts.forget(uid);
            return;
        };
        let observed = self.observer.last(uid);
        if observed.as_ref().is_some_and(|row| row.moment == Moment::START) {
            // It is there, and nobody has looked at it yet: its containers would seem lost.
            return;
        }
        let worker = self.workers.get(uid);
        let verdicts = self.verdicts.get(uid);
        let abilities = self.health.now().abilities;
        let kept = self.statuses.reader().get(uid);
        let own = kept.as_ref().map(|kept| kept.read());
        let shown = if pod.is_static() { self.shown.mirror_of(&pod) } else { None };
        let told = shown.as_ref().map_or(&pod.status, |mirror| &mirror.status);
        let previous = base(own.as_ref(), told);
        if own.is_none() {
            self.metrics.starts.seen(uid, &pod.status);
        }
        let pod = self.allocations.granted(&pod);
        let cgroup = self.cgroup(&pod).await;
        let resize = self.allocations.get(uid).map(|own| resize_conditions(&own)).unwrap_or_default();
        let status = pod_status(&Facts {
            pod: &pod,
            observed: observed.as_deref(),
            worker: worker.as_deref(),
            verdicts: verdicts.as_deref(),
            previous,
            own: own.as_ref(),
            resize: &resize,
            cgroup: cgroup.as_ref(),
            handlers: &abilities.handlers,
            node: &self.node,
            now: self.clock.now(),
        });
        let written = KeptStatus::of(&status);
        if kept.as_deref() == Some(&written) {
            return;
        }
        if let Some(previous) = previous {
            for end in terminations(previous, &status) {
                self.metrics.containers.terminated(end.kind, end.exit_code, &end.reason);
            }
        }
        let was = previous.and_then(|status| status.phase.as_deref());
        if was != status.phase.as_deref() {
            tracing::info!(pod = %pod.full_name, phase = status.phase.as_deref().unwrap_or_default(), "pod phase changed");
            if was.is_none_or(|phase| phase == "Pending") && status.phase.as_deref() == Some("Running") {
                self.metrics.starts.running(&self.metrics.pods, &pod, &status, self.clock.now());
            }
        }
        if is_ready(&status) {
            self.timelines.ready(uid);
        }
        self.statuses.set(uid, Arc::new(written));
    }

    /// The limits of the pod's cgroup, if its status shows them.
    async fn cgroup(&self, pod: &Pod) -> Option<CgroupLimits> {
        let path = pod_cgroup(pod, &self.settings);
        if path.is_empty() || !shows_cgroup(pod, &self.node) {
            return None;
        }
        match self.cgroups.limits(&path).await {
            Ok(limits) => Some(limits),
            Err(error) => {
                tracing::debug!(pod = %pod.full_name, %error, source = %error.source, "the pod's cgroup cannot be read");
                None
            }
        }
    }
}

fn is_ready(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
