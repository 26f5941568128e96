//! Removes dead containers beyond what is kept, and links to logs that are gone, each minute.

use std::sync::Arc;
use std::time::Duration;

use decide::dead_containers::{Collectable, ContainerGcPolicy, collect};
use futures::StreamExt;
use model::{EventSubject, EventType, RecordedEvent};
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::pod_logs::PodLogs;
use ports::runtime::{Runtime, RuntimeError};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::observation::Observer;

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
}

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    // The pods' own passes do most of it; a minute after the start is soon enough.
    let mut ticks = tokio::time::interval_at(Instant::now() + PERIOD, PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let pods = parts.observer.all();
        let surplus = collect(pods.iter().map(|pod| &**pod), &parts.policy, parts.clock.now());
        let failures: Vec<RuntimeError> = futures::stream::iter(surplus)
            .map(|container| parts.remove(container))
            .buffer_unordered(AT_ONCE)
            .filter_map(async |removed| removed.err())
            .collect()
            .await;
        if let Some(error) = failures.first() {
            parts.tell(error);
        }
        if let Err(error) = parts.logs.remove_dead_log_links().await {
            tracing::warn!(%error, source = %error.source, "dead log links stay");
        }
    }
}

impl Parts {
    fn tell(&self, error: &RuntimeError) {
        self.events.record(RecordedEvent {
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
