//! Removes dead containers beyond what is kept, and links to logs that are gone, each minute
//! and when somebody needs the room.

use std::sync::Arc;
use std::time::Duration;

use decide::dead_containers::{Collectable, ContainerGcPolicy, collect, give_up};
use futures::StreamExt;
use model::{EventSubject, EventType, PodUid, RecordedEvent, WorkerPhase, WorkerView};
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::pod_logs::PodLogs;
use ports::runtime::{Runtime, RuntimeError};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::messages::ReclaimOrder;
use crate::observation::Observer;
use crate::published::Reader;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(60);
/// Removals side by side.
const AT_ONCE: usize = 4;

/// What the collector needs.
pub struct Parts {
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Logs on disk.
    pub logs: Arc<dyn PodLogs>,
    /// What the runtime holds.
    pub observer: Observer,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The node's name.
    pub node: String,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// How many are kept.
    pub policy: ContainerGcPolicy,
    /// How far workers are: what is left of a pod that is over can be given up.
    pub workers: Reader<WorkerView>,
    /// Who needs the room.
    pub orders: mpsc::Receiver<ReclaimOrder>,
}

/// Runs until cancelled.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    // The pods' own passes do most of it; a minute after the start is soon enough.
    let mut ticks = tokio::time::interval_at(Instant::now() + PERIOD, PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let order = tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => None,
            Some(order) = parts.orders.recv() => Some(order),
        };
        let pods = parts.observer.all();
        let pods = pods.iter().map(|pod| &**pod);
        let now = parts.clock.now();
        let surplus = if order.is_some() {
            let (over, living): (Vec<_>, Vec<_>) = pods.partition(|pod| parts.is_over(&pod.uid));
            give_up(over, living, &parts.policy, now)
        } else {
            collect(pods, &parts.policy, now)
        };
        parts.collect(surplus).await;
        if let Some(order) = order {
            tracing::info!("dead containers were given up to make room");
            // Who asked may have lost patience.
            let _ = order.done.send(());
        }
    }
}

impl Parts {
    fn is_over(&self, uid: &PodUid) -> bool {
        self.workers.get(uid).is_some_and(|worker| worker.phase == WorkerPhase::Finished)
    }

    async fn collect(&self, surplus: Vec<Collectable>) {
        let failures: Vec<RuntimeError> = futures::stream::iter(surplus)
            .map(|container| self.remove(container))
            .buffer_unordered(AT_ONCE)
            .filter_map(async |removed| removed.err())
            .collect()
            .await;
        if let Some(error) = failures.first() {
            self.tell(error);
        }
        if let Err(error) = self.logs.remove_dead_log_links().await {
            tracing::warn!(%error, source = %error.source, "dead log links stay");
        }
    }

    fn tell(&self, error: &RuntimeError) {
        self.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Node(self.node.clone()),
            kind: EventType::Warning,
            reason: "ContainerGCFailed".to_owned(),
            message: error.message.clone(),
            at: self.clock.now(),
        });
    }

    async fn remove(&self, container: Collectable) -> Result<(), RuntimeError> {
        if let Err(error) = self.runtime.remove_container(&container.id).await {
            tracing::warn!(pod = %container.pod, container = %container.id, %error, "a dead container stays");
            return Err(error);
        }
        self.observer.hint(&container.pod);
        if container.log.as_os_str().is_empty() {
            return Ok(());
        }
        if let Err(error) = self.logs.remove_log(&container.log, &container.log_link).await {
            tracing::warn!(pod = %container.pod, %error, source = %error.source, "the log of a removed container stays");
        }
        Ok(())
    }
}
