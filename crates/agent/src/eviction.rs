//! Watches what the node runs short of, and acts: gives up what nobody needs, then ends one pod at a time. Pods that break a
//! limit of their local storage go whatever room there is.
//!
//! A quiet look reads a handful of files of the node itself. What pods use is read only when one of them has to go, and of
//! pods with limits of local storage, what they take of disks.

mod act;
mod sight;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::eviction::{IMMEDIATE_GRACE_SECONDS, NodeSight};
use decide::eviction::{
    LimitReadings, MinimumReclaim, Observations, PodUse, Settings, Signal, Starved, Threshold, Watch,
    broken_limit, by_urgency, eviction_note, grace_seconds, limit_readings, may_go, met, observe, rank,
    reclaims,
};
use decide::node_status::Pressure;
use model::statistics::PodStatistics;
use model::{NodeSettings, Pod, WorkerView};
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::memory_thresholds::MemoryThresholds;
use ports::pod_statistics::{DiskParts, PodStatisticsSource};
use ports::runtime::Images;
use ports::usage::{DiskUsage, Usage};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::allocations::Allocations;
use crate::messages::{KillRequest, ReclaimOrder};
use crate::metrics::Metrics;
use crate::observation::Observer;
use crate::published::Reader;
use act::Victim;
use sight::Disks;

/// Time between two looks at a node that is well.
const INTERVAL: Duration = Duration::from_secs(10);
/// Longest wait for what pods use.
const STATISTICS_LIMIT: Duration = Duration::from_secs(30);

/// What the stage needs.
pub struct Parts {
    /// What is configured.
    pub settings: Settings,
    /// The node.
    pub node: Arc<NodeSettings>,
    /// Counters of the kernel.
    pub usage: Arc<dyn Usage>,
    /// File systems.
    pub disks: Arc<dyn DiskUsage>,
    /// Where images and containers lie.
    pub images: Arc<dyn Images>,
    /// What pods use.
    pub statistics: Arc<dyn PodStatisticsSource>,
    /// Word from the kernel.
    pub memory: Arc<dyn MemoryThresholds>,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far their workers are.
    pub workers: Reader<WorkerView>,
    /// What was granted to pods.
    pub allocations: Allocations,
    /// What runs.
    pub observer: Observer,
    /// The sync loop.
    pub kills: mpsc::UnboundedSender<KillRequest>,
    /// The collectors.
    pub collectors: Collectors,
    /// Who tells of the node's conditions and lets pods in.
    pub pressure: watch::Sender<Pressure>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// Who can give up what nobody needs.
#[derive(Clone, Debug)]
pub struct Collectors {
    /// Dead containers.
    pub containers: mpsc::Sender<ReclaimOrder>,
    /// Images.
    pub images: mpsc::Sender<ReclaimOrder>,
}

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    if parts.settings.thresholds.is_empty() && !parts.settings.local_storage {
        return cancel.cancelled().await;
    }
    let guard = Guard {
        thresholds: parts.settings.thresholds.clone(),
        parts,
        watch: Watch::default(),
        disks: None,
        sight: NodeSight::default(),
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = guard.stand() => {}
    }
}

struct Guard {
    parts: Parts,
    /// Those of the settings, with those of the disk of containers once it is known.
    thresholds: Vec<Threshold>,
    watch: Watch,
    disks: Option<Disks>,
    /// The node at the last look.
    sight: NodeSight,
}

impl Guard {
    async fn stand(mut self) {
        // What a pod uses is told of those that were looked at; the others would be the first to go.
        self.parts.observer.looked().await;
        loop {
            let victims = self.pass().await;
            if victims.is_empty() {
                self.rest().await;
            } else {
                self.see_off(&victims).await;
            }
        }
    }

    /// One look at the node, and what follows from it: the pods that have to go.
    async fn pass(&mut self) -> Vec<Victim> {
        self.learn_disks().await;
        self.sight = self.look().await;
        let now = self.parts.clock.now();
        let step =
            self.watch.step(&self.thresholds, observe(&self.sight), self.parts.settings.transition, now);
        self.parts.pressure.send_if_modified(|last| {
            let is_news = *last != step.pressure;
            if is_news {
                tracing::info!(now = ?step.pressure, before = ?last, "what the node runs short of");
            }
            *last = step.pressure;
            is_news
        });
        if self.parts.settings.local_storage {
            let victims = self.end_limit_breakers().await;
            if !victims.is_empty() {
                return victims;
            }
        }
        let act_on = by_urgency(step.act_on);
        match act_on.first() {
            Some(first) => self.reclaim(first, &act_on).await.into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Makes room for what a threshold is about: without ending a pod, if that suffices.
    async fn reclaim(&self, threshold: &Threshold, met_now: &[Threshold]) -> Option<Victim> {
        let (signal, starved) = (threshold.signal, threshold.signal.starved());
        tracing::warn!(signal = signal.as_str(), "the node runs short of {}", starved.as_str());
        self.warn_node("EvictionThresholdMet", format!("Attempting to reclaim {}", starved.as_str()));
        if self.give_up(signal).await {
            tracing::info!("what nobody needs made enough room");
            return None;
        }
        let pods = self.ranked(signal).await?;
        self.note_age(met_now);
        let Some(first) = pods.into_iter().next() else {
            tracing::warn!("no pod can go to make room");
            return None;
        };
        let seen = self.watch.last();
        Some(self.end_for(threshold, &first, met_now, seen, starved))
    }

    /// Has given up what nobody needs; whether that was enough for every threshold.
    async fn give_up(&self, signal: Signal) -> bool {
        let reclaims = reclaims(signal, self.layout());
        if reclaims.is_empty() {
            return false;
        }
        for reclaim in reclaims {
            self.order(*reclaim).await;
        }
        let seen = observe(&self.look().await);
        met(&self.thresholds, &seen, MinimumReclaim::Enforced).is_empty()
    }

    /// Pods that may go, the first one first; `None` when what they use cannot be told.
    async fn ranked(&self, signal: Signal) -> Option<Vec<PodUse>> {
        let pods: Vec<Arc<Pod>> = self.candidates(|_| true).collect();
        if pods.is_empty() {
            return Some(Vec::new());
        }
        let everything = self.parts.statistics.everything();
        let Ok(used) = tokio::time::timeout(STATISTICS_LIMIT, everything).await else {
            tracing::warn!("what pods use cannot be told; none is ended");
            return None;
        };
        let mut used = by_uid(used);
        let pods = pods.into_iter().map(|pod| PodUse { used: used.remove(pod.uid.as_str()), pod });
        Some(rank(pods.collect(), signal, self.layout()))
    }

    fn end_for(
        &self,
        threshold: &Threshold,
        first: &PodUse,
        met_now: &[Threshold],
        seen: &Observations,
        starved: Starved,
    ) -> Victim {
        let note = eviction_note(starved, &first.pod, first.used.as_ref(), met_now, seen);
        let grace = grace_seconds(threshold, &first.pod, &self.parts.settings);
        self.end(&first.pod, threshold.signal.as_str(), grace, note)
    }

    /// Ends all pods that break a limit of their local storage.
    async fn end_limit_breakers(&self) -> Vec<Victim> {
        let limited: Vec<(Arc<Pod>, LimitReadings)> = self
            .candidates(|pod| limit_readings(pod) != LimitReadings::Nothing)
            .map(|pod| (Arc::clone(&pod), limit_readings(&pod)))
            .collect();
        let parts = match limited.iter().map(|(_, readings)| *readings).max() {
            None => return Vec::new(),
            Some(LimitReadings::Nothing | LimitReadings::Volumes) => DiskParts::Files,
            Some(LimitReadings::Everything) => DiskParts::FilesAndLayers,
        };
        let uids = limited.iter().map(|(pod, _)| pod.uid.clone()).collect();
        let disks = self.parts.statistics.disks(uids, parts);
        let Ok(used) = tokio::time::timeout(STATISTICS_LIMIT, disks).await else { return Vec::new() };
        let used = by_uid(used);
        let broken = limited.iter().filter_map(|(pod, _)| {
            let broken = broken_limit(pod, used.get(pod.uid.as_str())?, self.layout())?;
            Some((pod, broken))
        });
        broken
            .map(|(pod, broken)| {
                let note = decide::eviction::EvictionNote { message: broken.message, ..Default::default() };
                self.end(pod, broken.signal, IMMEDIATE_GRACE_SECONDS, note)
            })
            .collect()
    }

    /// Pods of some kind that may go, as they were granted. In most passes there is none of the kind.
    fn candidates(&self, is_meant: impl Fn(&Pod) -> bool) -> impl Iterator<Item = Arc<Pod>> {
        let parts = &self.parts;
        let pods = parts.desired.all().into_iter();
        pods.filter(move |pod| is_meant(pod) && may_go(pod, parts.workers.get(&pod.uid).as_deref()))
            .map(|pod| parts.allocations.granted(&pod))
    }

    fn note_age(&self, met_now: &[Threshold]) {
        let now = self.parts.clock.now();
        for threshold in met_now {
            if let Some(seen) = self.watch.last().get(&threshold.signal) {
                self.parts.metrics.evictions.acted_on(threshold.signal.as_str(), now.since(seen.at));
            }
        }
    }
}

fn by_uid(used: Vec<PodStatistics>) -> HashMap<String, PodStatistics> {
    used.into_iter().map(|own| (own.pod_ref.uid.clone(), own)).collect()
}
