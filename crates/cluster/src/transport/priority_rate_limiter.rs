//! A rate limiter that serves urgent callers first.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use timing::TokenBucket;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::rate_limit::RateLimit;

/// Callers of the same priority are served in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    Urgent,
    Normal,
}

/// A token bucket with a priority queue. The first caller in the queue sleeps until a token is available; the others wait
/// until they are first.
#[derive(Debug)]
pub(crate) struct PriorityRateLimiter {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bucket: TokenBucket,
    arrivals: u64,
    waiting: BTreeMap<QueueKey, Arc<Notify>>,
}

type QueueKey = (Priority, u64);

impl PriorityRateLimiter {
    pub(crate) fn new(rate: RateLimit) -> Self {
        let bucket = TokenBucket::full(rate.per_second.into(), rate.burst.into(), Instant::now());
        Self { state: Mutex::new(State { bucket, arrivals: 0, waiting: BTreeMap::new() }) }
    }

    /// Waits for a token. Dropping the future removes the caller from the queue.
    pub(crate) async fn acquire(&self, priority: Priority) {
        let entry = self.enqueue(priority);
        loop {
            match self.try_acquire(&entry) {
                TryAcquire::Acquired => return,
                TryAcquire::NextTokenIn(wait) => {
                    // A more urgent caller may arrive during the sleep; `try_acquire` checks again.
                    tokio::time::sleep(wait).await;
                }
                TryAcquire::NotFirst => entry.first_in_queue.notified().await,
            }
        }
    }

    fn enqueue(&self, priority: Priority) -> QueueEntry<'_> {
        let first_in_queue = Arc::new(Notify::new());
        let mut state = self.state.lock();
        state.arrivals += 1;
        let key = (priority, state.arrivals);
        state.waiting.insert(key, first_in_queue.clone());
        QueueEntry { rate_limiter: self, key, first_in_queue }
    }

    fn try_acquire(&self, entry: &QueueEntry<'_>) -> TryAcquire {
        let mut state = self.state.lock();
        if state.waiting.first_key_value().map(|(key, _)| *key) != Some(entry.key) {
            return TryAcquire::NotFirst;
        }
        match state.bucket.take(Instant::now()) {
            Ok(()) => TryAcquire::Acquired,
            Err(wait) => TryAcquire::NextTokenIn(wait),
        }
    }
}

enum TryAcquire {
    Acquired,
    NextTokenIn(Duration),
    NotFirst,
}

/// A caller in the queue. On drop it leaves the queue and wakes the new first caller.
struct QueueEntry<'a> {
    rate_limiter: &'a PriorityRateLimiter,
    key: QueueKey,
    first_in_queue: Arc<Notify>,
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        let mut state = self.rate_limiter.state.lock();
        state.waiting.remove(&self.key);
        if let Some((_, next)) = state.waiting.first_key_value() {
            next.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use futures::stream::FuturesUnordered;

    use super::*;

    fn one_per_second() -> PriorityRateLimiter {
        PriorityRateLimiter::new(RateLimit { per_second: 1, burst: 1 })
    }

    #[tokio::test(start_paused = true)]
    async fn serves_urgent_callers_first_and_equal_ones_in_order() {
        let rate_limiter = one_per_second();
        rate_limiter.acquire(Priority::Normal).await;
        let caller = async |name, priority, arrives: u64| {
            tokio::time::sleep(Duration::from_millis(arrives)).await;
            rate_limiter.acquire(priority).await;
            name
        };
        let acquiring: FuturesUnordered<_> = [
            caller("first", Priority::Normal, 10),
            caller("second", Priority::Normal, 20),
            caller("urgent", Priority::Urgent, 30),
            // Arrives while "first" sleeps at the head of the queue, after "urgent" has taken a token.
            caller("more urgent", Priority::Urgent, 1500),
        ]
        .into_iter()
        .collect();
        let order: Vec<_> = acquiring.collect().await;
        assert_eq!(order, ["urgent", "more urgent", "first", "second"]);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_caller_does_not_block_the_queue() {
        let rate_limiter = one_per_second();
        rate_limiter.acquire(Priority::Normal).await;
        let start = Instant::now();
        let cancelled =
            tokio::time::timeout(Duration::from_millis(100), rate_limiter.acquire(Priority::Urgent));
        let (cancelled, ()) = tokio::join!(cancelled, rate_limiter.acquire(Priority::Normal));
        assert!(cancelled.is_err());
        assert!(start.elapsed() < Duration::from_millis(1100), "{:?}", start.elapsed());
        assert!(rate_limiter.state.lock().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn limits_the_rate_of_many_callers() {
        let rate_limiter = PriorityRateLimiter::new(RateLimit { per_second: 50, burst: 100 });
        let start = Instant::now();
        let callers: FuturesUnordered<_> = (0..600).map(|_| rate_limiter.acquire(Priority::Normal)).collect();
        assert_eq!(callers.count().await, 600);
        // 100 at once, then 500 at 50 per second; timers of a paused clock have millisecond resolution.
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
    }
}
