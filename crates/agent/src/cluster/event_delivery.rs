//! Sends events to the API server, in addition to the node's local event log.
//!
//! Recording never blocks: an event is correlated and queued, and the queue is debounced. An event that is recorded again
//! while it is queued is sent once with the higher count, so an outage causes at most one request per queued event. When
//! the queue is full, the oldest event is dropped and counted.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::event_correlation::{CorrelatedEvent, EventCorrelator, EventKey, RecentMap};
use model::RecordedEvent;
use ports::api::events::{ApiEvents, EventReport};
use ports::api::{ApiError, ApiErrorKind};
use ports::served::event_recorder::EventRecorder;
use timing::{Backoff, BackoffPolicy, WorkQueue, random};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Delay of the first event after a quiet period. It combines repeated events, and leaves the CPU of a small machine to
/// the work that the events report.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// Time to send the queued events when the agent stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_QUEUED: usize = 1000;
/// Number of events that are known to exist at the server and are updated instead of created.
const MAX_CREATED: usize = 2048;
/// Jitter prevents all nodes from retrying at the same time after an outage.
const BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(30)).with_jitter(0.5);

/// Records events in the local log and queues them for the API server.
pub struct EventDelivery {
    log: Arc<dyn EventRecorder>,
    queue: Mutex<Queue>,
    added: Notify,
}

#[derive(Default)]
struct Queue {
    correlator: EventCorrelator,
    keys: WorkQueue<EventKey>,
    /// The newest version of each queued event.
    pending: HashMap<EventKey, CorrelatedEvent>,
    dropped: u64,
}

impl EventDelivery {
    #[must_use]
    pub fn new(log: Arc<dyn EventRecorder>) -> Self {
        Self { log, queue: Mutex::default(), added: Notify::new() }
    }

    /// Number of events that were dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queue.lock().dropped
    }
}

impl EventRecorder for EventDelivery {
    fn record(&self, event: RecordedEvent) {
        self.log.record(event.clone());
        self.queue.lock().push(event);
        self.added.notify_one();
    }
}

impl Queue {
    fn push(&mut self, event: RecordedEvent) {
        let Some(event) = self.correlator.observe(event) else { return };
        let key = event.key.clone();
        self.keys.push(key.clone());
        self.pending.insert(key, event);
        if self.keys.len() > MAX_QUEUED
            && let Some(oldest) = self.keys.discard_oldest()
        {
            self.pending.remove(&oldest);
            self.dropped += 1;
            if self.dropped.is_power_of_two() {
                tracing::warn!(dropped = self.dropped, "event queue is full, dropped the oldest event");
            }
        }
    }

    fn pop(&mut self) -> Option<CorrelatedEvent> {
        let key = self.keys.pop()?;
        self.pending.remove(&key)
    }

    /// Queues a failed event again, unless a newer version was recorded meanwhile.
    fn retry(&mut self, event: CorrelatedEvent) {
        self.keys.retry(event.key.clone());
        self.pending.entry(event.key.clone()).or_insert(event);
    }
}

/// Sends the queued events, one at a time, until cancelled.
pub async fn run(delivery: Arc<EventDelivery>, api: Arc<dyn ApiEvents>, cancel: CancellationToken) {
    let mut created = RecentMap::new(MAX_CREATED);
    let mut backoff = Backoff::new(BACKOFF);
    loop {
        let next = delivery.queue.lock().pop();
        let Some(event) = next else {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = delivery.added.notified() => {}
            }
            tokio::select! {
                () = cancel.cancelled() => return flush(&delivery, &*api, &created).await,
                () = tokio::time::sleep(DEBOUNCE) => continue,
            }
        };
        let Some(sent) = cancel.run_until_cancelled(send(&*api, &event, &created)).await else { return };
        match sent {
            Ok(()) => {
                delivery.queue.lock().keys.done(&event.key);
                created.set(event.key, ());
                backoff.reset();
            }
            Err(error) if error.is_transient() => {
                let delay = error.retry_after.unwrap_or_default().max(backoff.next(random()));
                tracing::debug!(%error, "failed to send event, retrying");
                delivery.queue.lock().retry(event);
                if cancel.run_until_cancelled(tokio::time::sleep(delay)).await.is_none() {
                    return;
                }
            }
            Err(error) => {
                delivery.queue.lock().keys.done(&event.key);
                tracing::debug!(event = %event.name, %error, "API server rejected event");
            }
        }
    }
}

/// Sends the queued events. Stops at the first failure, so that it does not delay the stop of the agent.
async fn flush(delivery: &EventDelivery, api: &dyn ApiEvents, created: &RecentMap<EventKey, ()>) {
    let all = async {
        while let Some(event) = { delivery.queue.lock().pop() } {
            if send(api, &event, created).await.is_err() {
                return;
            }
            delivery.queue.lock().keys.done(&event.key);
        }
    };
    let _ = tokio::time::timeout(FLUSH_TIMEOUT, all).await;
}

async fn send(
    api: &dyn ApiEvents,
    event: &CorrelatedEvent,
    created: &RecentMap<EventKey, ()>,
) -> Result<(), ApiError> {
    let report = EventReport {
        name: event.name.clone(),
        event: event.event.clone(),
        first_at: event.first_at,
        count: event.count,
    };
    if created.get(&event.key).is_some() {
        match api.update(&report).await {
            // The server deletes events after a while.
            Err(ApiError { kind: ApiErrorKind::NotFound, .. }) => {}
            other => return other,
        }
    }
    api.create(&report).await
}

#[cfg(test)]
mod tests;
