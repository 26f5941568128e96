//! Garbage collection of dead containers and dead log links, every minute and on a reclaim order.

use std::sync::Arc;
use std::time::Duration;

use decide::pipeline::dead_containers::{
    ContainerGcPolicy, DeadContainer, select_dead_containers, select_under_disk_pressure,
};
use futures::StreamExt;
use model::{EventSubject, EventType, PodUid, RecordedEvent, WorkerPhase, WorkerView};
use ports::clock::Clock;
use ports::runtime::{Runtime, RuntimeError};
use ports::served::event_recorder::EventRecorder;
use ports::served::pod_logs::PodLogs;
use ports::telemetry::trace::TARGET;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::pipeline::messages::ReclaimOrder;
use crate::pipeline::observation::Observer;
use crate::pipeline::tables::Reader;

const PERIOD: Duration = Duration::from_secs(60);
/// Concurrent removals.
const MAX_CONCURRENT_REMOVALS: usize = 4;

pub struct ContainerGcDeps {
    pub runtime: Arc<dyn Runtime>,
    pub logs: Arc<dyn PodLogs>,
    pub observer: Observer,
    pub clock: Arc<dyn Clock>,
    pub node: String,
    pub events: Arc<dyn EventRecorder>,
    pub policy: ContainerGcPolicy,
    /// Tells which pods are finished.
    pub workers: Reader<WorkerView>,
    pub orders: mpsc::Receiver<ReclaimOrder>,
}

/// Runs until cancelled.
pub async fn run(mut deps: ContainerGcDeps, cancel: CancellationToken) {
    // The syncs of pods remove most dead containers, so the first run can wait.
    let mut ticks = tokio::time::interval_at(Instant::now() + PERIOD, PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let order = tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => None,
            Some(order) = deps.orders.recv() => Some(order),
        };
        let pods = deps.observer.all();
        let pods = pods.iter().map(|pod| &**pod);
        let now = deps.clock.now();
        let surplus = if order.is_some() {
            let (over, living): (Vec<_>, Vec<_>) = pods.partition(|pod| deps.is_over(&pod.uid));
            select_under_disk_pressure(over, living, &deps.policy, now)
        } else {
            select_dead_containers(pods, &deps.policy, now)
        };
        let span = tracing::info_span!(target: TARGET, "Containers/GarbageCollect");
        deps.collect(surplus).instrument(span).await;
        if let Some(order) = order {
            tracing::info!("removed dead containers to free disk space");
            // The sender may have timed out.
            let _ = order.done.send(());
        }
    }
}

impl ContainerGcDeps {
    fn is_over(&self, uid: &PodUid) -> bool {
        self.workers.get(uid).is_some_and(|worker| worker.phase == WorkerPhase::Finished)
    }

    async fn collect(&self, surplus: Vec<DeadContainer>) {
        let failures: Vec<RuntimeError> = futures::stream::iter(surplus)
            .map(|container| self.remove(container))
            .buffer_unordered(MAX_CONCURRENT_REMOVALS)
            .filter_map(async |removed| removed.err())
            .collect()
            .await;
        if let Some(error) = failures.first() {
            let (subject, now) = (EventSubject::Node(self.node.clone()), self.clock.now());
            let (kind, reason) = (EventType::Warning, "ContainerGCFailed");
            self.events.record(RecordedEvent::new(subject, kind, reason, &error.message, now));
        }
        if let Err(error) = self.logs.remove_dead_log_links().await {
            tracing::warn!(%error, source = %error.source, "failed to remove dead log links");
        }
    }

    async fn remove(&self, container: DeadContainer) -> Result<(), RuntimeError> {
        if let Err(error) = self.runtime.remove_container(&container.id).await {
            tracing::warn!(pod = %container.pod, container = %container.id, %error, "failed to remove dead container");
            return Err(error);
        }
        self.observer.hint(&container.pod);
        if container.log.as_os_str().is_empty() {
            return Ok(());
        }
        if let Err(error) = self.logs.remove_log(&container.log, &container.log_link).await {
            tracing::warn!(pod = %container.pod, %error, source = %error.source, "failed to remove the log of a removed container");
        }
        Ok(())
    }
}
