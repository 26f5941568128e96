//! The last figures of the volumes of pods, refreshed in the background.
//!
//! A request queues the pods whose figures are older than the configured period, and returns the last figures at once. It
//! waits only for pods without figures or with very old ones, and only for a moment. So a pod with millions of files delays
//! neither scrapes nor eviction.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use decide::statistics::summary::VolumeReading;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use model::PodUid;
use parking_lot::Mutex;
use timing::WorkQueue;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

/// Pods that are measured at the same time.
const MAX_CONCURRENT: usize = 2;
/// How long a request waits for the first figures of pods.
const FIRST_FIGURES_TIMEOUT: Duration = Duration::from_secs(1);
/// Figures older than this many periods count as missing.
const EXPIRY_PERIODS: u32 = 2;
/// A pod whose measurement takes long is measured less often, so that it takes at most this part of the time.
const COST_FACTOR: u32 = 10;

/// Figures of the volumes of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodVolumes {
    pub(super) readings: Vec<VolumeReading>,
    /// Otherwise local volumes use more than the readings show.
    pub(super) is_complete: bool,
}

impl Default for PodVolumes {
    fn default() -> Self {
        Self { readings: Vec::new(), is_complete: true }
    }
}

#[derive(Debug)]
pub(super) struct VolumeUsage {
    /// `None` disables measurements.
    period: Option<Duration>,
    state: Mutex<State>,
    /// Wakes the measuring task.
    queued: Notify,
    /// Incremented after each measurement.
    measured: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    pods: HashMap<PodUid, Measured>,
    queue: WorkQueue<PodUid>,
}

#[derive(Debug)]
struct Measured {
    volumes: PodVolumes,
    at: Instant,
    /// Before this time the pod is not measured again.
    next: Instant,
}

impl VolumeUsage {
    pub(super) fn new(period: Option<Duration>) -> Self {
        Self { period, state: Mutex::default(), queued: Notify::new(), measured: watch::Sender::default() }
    }

    /// Drops the figures of other pods.
    pub(super) fn retain(&self, keep: impl Fn(&PodUid) -> bool) {
        self.state.lock().pods.retain(|uid, _| keep(uid));
    }

    /// The last figures of these pods.
    pub(super) async fn figures(&self, pods: Vec<PodUid>) -> BTreeMap<PodUid, PodVolumes> {
        let Some(period) = self.period else { return BTreeMap::new() };
        // Subscribed before the pods are queued, so that no measurement is missed.
        let mut measured = self.measured.subscribe();
        let mut missing = self.queue_stale(&pods, period);
        let until = Instant::now() + FIRST_FIGURES_TIMEOUT;
        while !missing.is_empty() && matches!(timeout_at(until, measured.changed()).await, Ok(Ok(()))) {
            let state = self.state.lock();
            missing.retain(|uid| state.is_missing(uid, period));
        }
        let state = self.state.lock();
        let figures = |uid: PodUid| {
            let volumes = state.pods.get(&uid)?.volumes.clone();
            Some((uid, volumes))
        };
        pods.into_iter().filter_map(figures).collect()
    }

    /// Queues the pods that need a measurement; returns those without usable figures.
    fn queue_stale(&self, pods: &[PodUid], period: Duration) -> Vec<PodUid> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut missing = Vec::new();
        for uid in pods {
            if state.is_due(uid, now) {
                state.queue.push(uid.clone());
                if state.is_missing(uid, period) {
                    missing.push(uid.clone());
                }
            }
        }
        drop(state);
        self.queued.notify_one();
        missing
    }

    /// Measures queued pods, forever. `measure` receives the last readings of the pod.
    pub(super) async fn run<F>(&self, measure: impl Fn(PodUid, Vec<VolumeReading>) -> F)
    where
        F: Future<Output = PodVolumes>,
    {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < MAX_CONCURRENT
                && let Some(uid) = self.next_queued()
            {
                running.push(self.refresh(uid, &measure));
            }
            tokio::select! {
                Some(()) = running.next() => {}
                () = self.queued.notified() => {}
            }
        }
    }

    fn next_queued(&self) -> Option<PodUid> {
        let now = Instant::now();
        let mut state = self.state.lock();
        loop {
            let uid = state.queue.pop()?;
            if state.is_due(&uid, now) {
                return Some(uid);
            }
            // Requested again while it was measured.
            state.queue.done(&uid);
        }
    }

    async fn refresh<F>(&self, uid: PodUid, measure: &impl Fn(PodUid, Vec<VolumeReading>) -> F)
    where
        F: Future<Output = PodVolumes>,
    {
        let begun = Instant::now();
        let last = self.state.lock().pods.get(&uid).map(|known| known.volumes.readings.clone());
        let volumes = measure(uid.clone(), last.unwrap_or_default()).await;
        let (now, cost) = (Instant::now(), begun.elapsed());
        let next = (begun + self.period.unwrap_or_default()).max(now + cost.saturating_mul(COST_FACTOR));
        {
            let mut state = self.state.lock();
            state.pods.insert(uid.clone(), Measured { volumes, at: now, next });
            state.queue.done(&uid);
        }
        self.measured.send_modify(|count| *count += 1);
        // Large trees must not occupy all processors, however many pods have one.
        tokio::time::sleep(cost).await;
    }
}

impl State {
    fn is_due(&self, uid: &PodUid, now: Instant) -> bool {
        self.pods.get(uid).is_none_or(|known| now >= known.next)
    }

    fn is_missing(&self, uid: &PodUid, period: Duration) -> bool {
        let expiry = period.saturating_mul(EXPIRY_PERIODS);
        self.pods.get(uid).is_none_or(|known| known.at.elapsed() >= expiry.max(known.next - known.at))
    }
}
