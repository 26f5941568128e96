//! Brings events to the API server, beside the log of events that the node keeps itself.
//!
//! Recording never waits: an event is correlated and queued, and gathered with those of the next moment. One that happens again while it is queued is sent once,
//! with the higher count, so an outage costs at most the length of the queue in requests; when that is full the oldest
//! event is dropped and counted.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use decide::event_correlation::{CorrelatedEvent, Correlator, EventKey, Recent};
use model::RecordedEvent;
use ports::api::events::{ApiEvents, EventReport};
use ports::api::{ApiError, ApiErrorKind};
use ports::event_recorder::EventRecorder;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long the first events after a quiet time wait for others. What they tell of is under way then, and a small machine
/// has better things to do.
const GATHER: Duration = Duration::from_millis(500);
/// How long events that wait may take when the agent stops.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Events that may wait.
const QUEUED: usize = 1000;
/// Events of which is remembered that the server has them.
const MADE: usize = 2048;
/// Waits while the server is away.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Records events in a log and for the API server.
pub struct EventDelivery {
    log: Arc<dyn EventRecorder>,
    queue: Mutex<Queue>,
    added: Notify,
}

#[derive(Default)]
struct Queue {
    correlator: Correlator,
    order: VecDeque<EventKey>,
    waiting: HashMap<EventKey, CorrelatedEvent>,
    dropped: u64,
}

impl EventDelivery {
    /// Records into that log as well.
    #[must_use]
    pub fn new(log: Arc<dyn EventRecorder>) -> Self {
        Self { log, queue: Mutex::default(), added: Notify::new() }
    }

    /// Events that never reached the server because too many waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queue().dropped
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventRecorder for EventDelivery {
    fn record(&self, event: RecordedEvent) {
        self.log.record(event.clone());
        self.queue().push(event);
        self.added.notify_one();
    }
}

impl Queue {
    fn push(&mut self, event: RecordedEvent) {
        let Some(event) = self.correlator.observe(event) else { return };
        let key = event.key.clone();
        if self.waiting.insert(key.clone(), event).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > QUEUED
            && let Some(oldest) = self.order.pop_front()
        {
            self.waiting.remove(&oldest);
            self.dropped += 1;
            if self.dropped.is_power_of_two() {
                tracing::warn!(
                    dropped = self.dropped,
                    "too many events wait for the API server; the oldest are dropped"
                );
            }
        }
    }

    fn pop(&mut self) -> Option<CorrelatedEvent> {
        let key = self.order.pop_front()?;
        self.waiting.remove(&key)
    }

    /// Puts an event back that could not be sent, unless it has happened again meanwhile.
    fn put_back(&mut self, event: CorrelatedEvent) {
        if !self.waiting.contains_key(&event.key) {
            self.order.push_front(event.key.clone());
            self.waiting.insert(event.key.clone(), event);
        }
    }
}

/// Sends what is queued, one event at a time. Runs until cancelled.
pub async fn run(delivery: Arc<EventDelivery>, api: Arc<dyn ApiEvents>, cancel: CancellationToken) {
    let mut made = Recent::new(MADE);
    let mut wait = FIRST_WAIT;
    loop {
        let next = delivery.queue().pop();
        let Some(event) = next else {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = delivery.added.notified() => {}
            }
            tokio::select! {
                () = cancel.cancelled() => return last_words(&delivery, &*api, &made).await,
                () = tokio::time::sleep(GATHER) => continue,
            }
        };
        let sent = tokio::select! {
            () = cancel.cancelled() => return,
            sent = send(&*api, &event, &made) => sent,
        };
        match sent {
            Ok(()) => {
                made.set(event.key, ());
                wait = FIRST_WAIT;
            }
            Err(error) if error.is_transient() => {
                let pause = error.retry_after.unwrap_or_default().max(wait);
                tracing::debug!(%error, "events cannot be delivered; trying again");
                delivery.queue().put_back(event);
                wait = (wait * 2).min(LONGEST_WAIT);
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
            Err(error) => {
                tracing::debug!(event = %event.name, %error, "the API server does not want an event");
            }
        }
    }
}

/// Sends what was just recorded. The first failure ends it: it is not worth a longer stop.
async fn last_words(delivery: &EventDelivery, api: &dyn ApiEvents, made: &Recent<EventKey, ()>) {
    let all = async {
        while let Some(event) = { delivery.queue().pop() } {
            if send(api, &event, made).await.is_err() {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS, all).await;
}

async fn send(
    api: &dyn ApiEvents,
    event: &CorrelatedEvent,
    made: &Recent<EventKey, ()>,
) -> Result<(), ApiError> {
    let report = EventReport {
        name: event.name.clone(),
        event: event.event.clone(),
        first_at: event.first_at,
        count: event.count,
    };
    if made.get(&event.key).is_some() {
        match api.update(&report).await {
            // The server forgets events after a while.
            Err(ApiError { kind: ApiErrorKind::NotFound, .. }) => {}
            other => return other,
        }
    }
    api.create(&report).await
}

#[cfg(test)]
mod tests;
