//! Eviction: under pressure it reclaims first and then evicts one pod at a time. Pods above their local storage limits are evicted
//! without pressure, too.
//!
//! A check without pressure reads only a few files of the node. Statistics of pods are read only when one must be evicted, and
//! disk use for pods with local storage limits.

mod act;
mod readings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::eviction::{
    EvictionNote, EvictionSettings, IMMEDIATE_GRACE_SECONDS, MinimumReclaim, NodeReadings, PodUsage,
    RequiredMeasurements, Signal, Threshold, ThresholdTracker, eviction_note, exceeded_limit, grace_seconds,
    is_evictable, met_thresholds, observe_signals, rank, reclaim_actions, required_measurements,
    sort_by_urgency,
};
use decide::node::node_status::Pressure;
use model::statistics::PodStatistics;
use model::{NodeSettings, Pod, RejectionKind, WorkerView};
use ports::clock::Clock;
use ports::host::memory_thresholds::MemoryThresholds;
use ports::host::usage::{DiskUsage, Usage};
use ports::runtime::Images;
use ports::served::event_recorder::EventRecorder;
use ports::served::pod_statistics::{DiskParts, PodStatisticsSource};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::pipeline::allocations::Allocations;
use crate::pipeline::messages::{KillRequest, ReclaimOrder};
use crate::pipeline::observation::Observer;
use crate::pipeline::tables::Reader;
use act::Victim;
use readings::Disks;

/// Time between two checks without pressure.
const INTERVAL: Duration = Duration::from_secs(10);
const STATISTICS_TIMEOUT: Duration = Duration::from_secs(30);

pub struct EvictionDeps {
    pub settings: EvictionSettings,
    pub node: Arc<NodeSettings>,
    pub usage: Arc<dyn Usage>,
    pub disks: Arc<dyn DiskUsage>,
    pub images: Arc<dyn Images>,
    pub statistics: Arc<dyn PodStatisticsSource>,
    pub memory: Arc<dyn MemoryThresholds>,
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    pub allocations: Allocations,
    pub observer: Observer,
    pub kills: mpsc::UnboundedSender<KillRequest>,
    pub collectors: Collectors,
    /// Read by the node status and by admission.
    pub pressure: watch::Sender<Pressure>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// The garbage collectors.
#[derive(Clone, Debug)]
pub struct Collectors {
    pub containers: mpsc::Sender<ReclaimOrder>,
    pub images: mpsc::Sender<ReclaimOrder>,
}

/// Runs until cancelled.
pub async fn run(deps: EvictionDeps, cancel: CancellationToken) {
    if deps.settings.thresholds.is_empty() && !deps.settings.local_storage {
        return cancel.cancelled().await;
    }
    let guard = Evictor {
        thresholds: deps.settings.thresholds.clone(),
        deps,
        watch: ThresholdTracker::default(),
        disks: None,
        sight: NodeReadings::default(),
    };
    cancel.run_until_cancelled(guard.run()).await;
}

struct Evictor {
    deps: EvictionDeps,
    /// The configured thresholds, with those of the container file system once it is known.
    thresholds: Vec<Threshold>,
    watch: ThresholdTracker,
    disks: Option<Disks>,
    /// The readings of the last check.
    sight: NodeReadings,
}

impl Evictor {
    async fn run(mut self) {
        // Statistics cover only observed pods; without them the other pods would rank first.
        self.deps.observer.all_observed().await;
        loop {
            let victims = self.check().await;
            if victims.is_empty() {
                self.wait_for_next_check().await;
            } else {
                self.wait_for_end(&victims).await;
            }
        }
    }

    /// Checks the node once; returns the pods that are being evicted.
    async fn check(&mut self) -> Vec<Victim> {
        self.detect_disks().await;
        self.sight = self.read_node().await;
        let now = self.deps.clock.now();
        let step = self.watch.update(
            &self.thresholds,
            observe_signals(&self.sight),
            self.deps.settings.transition,
            now,
        );
        self.deps.pressure.send_if_modified(|last| {
            let is_news = *last != step.pressure;
            if is_news {
                tracing::info!(now = ?step.pressure, before = ?last, "pressure changed");
            }
            *last = step.pressure;
            is_news
        });
        if self.deps.settings.local_storage {
            let victims = self.evict_pods_above_limits().await;
            if !victims.is_empty() {
                return victims;
            }
        }
        let act_on = sort_by_urgency(step.act_on);
        match act_on.first() {
            Some(first) => self.reclaim(first, &act_on).await.into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Reclaims the resource of a threshold, and evicts a pod if that is not enough.
    async fn reclaim(&self, threshold: &Threshold, met_now: &[Threshold]) -> Option<Victim> {
        let (signal, starved) = (threshold.signal, threshold.signal.starved_resource());
        tracing::warn!(signal = signal.as_str(), "node is under pressure: {}", starved.as_str());
        self.warn_node("EvictionThresholdMet", &format!("Attempting to reclaim {}", starved.as_str()));
        if self.run_collectors(signal).await {
            tracing::info!("reclaim relieved the pressure, no eviction needed");
            return None;
        }
        let pods = self.ranked(signal).await?;
        self.note_age(met_now);
        let Some(first) = pods.into_iter().next() else {
            tracing::warn!("no pod can be evicted");
            return None;
        };
        let seen = self.watch.last_observations();
        let note = eviction_note(starved, &first.pod, first.used.as_ref(), met_now, seen);
        let grace = grace_seconds(threshold, &first.pod, &self.deps.settings);
        Some(self.end(&first.pod, RejectionKind::NodePressure, signal.as_str(), grace, note))
    }

    /// Runs the collectors; returns whether that relieved every threshold.
    async fn run_collectors(&self, signal: Signal) -> bool {
        let reclaim_actions = reclaim_actions(signal, self.layout());
        if reclaim_actions.is_empty() {
            return false;
        }
        for reclaim in reclaim_actions {
            self.order(*reclaim).await;
        }
        let seen = observe_signals(&self.read_node().await);
        met_thresholds(&self.thresholds, &seen, MinimumReclaim::Enforced).is_empty()
    }

    /// Pods that may be evicted, in order; `None` without statistics.
    async fn ranked(&self, signal: Signal) -> Option<Vec<PodUsage>> {
        let pods: Vec<Arc<Pod>> = self.candidates(|_| true).collect();
        if pods.is_empty() {
            return Some(Vec::new());
        }
        let everything = self.deps.statistics.everything();
        let Ok(used) = tokio::time::timeout(STATISTICS_TIMEOUT, everything).await else {
            tracing::warn!("failed to read pod statistics, no pod is evicted");
            return None;
        };
        let mut used = by_uid(used);
        let pods = pods.into_iter().map(|pod| PodUsage { used: used.remove(pod.uid.as_str()), pod });
        Some(rank(pods.collect(), signal, self.layout()))
    }

    /// Evicts all pods above their local storage limits.
    async fn evict_pods_above_limits(&self) -> Vec<Victim> {
        let limited: Vec<(Arc<Pod>, RequiredMeasurements)> = self
            .candidates(|pod| required_measurements(pod) != RequiredMeasurements::Nothing)
            .map(|pod| (Arc::clone(&pod), required_measurements(&pod)))
            .collect();
        let deps = match limited.iter().map(|(_, readings)| *readings).max() {
            None => return Vec::new(),
            Some(RequiredMeasurements::Nothing | RequiredMeasurements::Volumes) => DiskParts::Files,
            Some(RequiredMeasurements::Everything) => DiskParts::FilesAndLayers,
        };
        let uids = limited.iter().map(|(pod, _)| pod.uid.clone()).collect();
        let disks = self.deps.statistics.disks(uids, deps);
        let Ok(used) = tokio::time::timeout(STATISTICS_TIMEOUT, disks).await else { return Vec::new() };
        let used = by_uid(used);
        let broken = limited.iter().filter_map(|(pod, _)| {
            let broken = exceeded_limit(pod, used.get(pod.uid.as_str())?, self.layout())?;
            Some((pod, broken))
        });
        broken
            .map(|(pod, broken)| {
                let note = EvictionNote { message: broken.message, ..EvictionNote::default() };
                self.end(pod, RejectionKind::StorageLimit, broken.signal, IMMEDIATE_GRACE_SECONDS, note)
            })
            .collect()
    }

    /// Running pods that match a filter, with their allocated resources.
    fn candidates(&self, is_meant: impl Fn(&Pod) -> bool) -> impl Iterator<Item = Arc<Pod>> {
        let deps = &self.deps;
        let pods = deps.desired.all().into_iter();
        pods.filter(move |pod| is_meant(pod) && is_evictable(pod, deps.workers.get(&pod.uid).as_deref()))
            .map(|pod| deps.allocations.allocated(&pod))
    }

    fn note_age(&self, met_now: &[Threshold]) {
        let now = self.deps.clock.now();
        for threshold in met_now {
            if let Some(seen) = self.watch.last_observations().get(&threshold.signal) {
                let signal = [threshold.signal.as_str()];
                self.deps.metrics.evictions.stats_age.observe(signal, now.since(seen.at));
            }
        }
    }
}

fn by_uid(used: Vec<PodStatistics>) -> HashMap<String, PodStatistics> {
    used.into_iter().map(|own| (own.pod_ref.uid.clone(), own)).collect()
}
