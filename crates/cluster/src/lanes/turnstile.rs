//! Waiting for a turn at a rate limit, the urgent first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::token_bucket::{Rate, TokenBucket};

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Before all others.
    Urgent,
    /// In the order of arrival.
    Normal,
}

/// Lets callers through at a rate. Whoever waits in front sleeps until there is a token; the others until they are in
/// front.
#[derive(Debug)]
pub(crate) struct Turnstile {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bucket: TokenBucket,
    arrivals: u64,
    waiting: BTreeMap<Ticket, Arc<Notify>>,
}

type Ticket = (Priority, u64);

impl Turnstile {
    pub(crate) fn new(rate: Rate) -> Self {
        let bucket = TokenBucket::full(rate, Instant::now());
        Self { state: Mutex::new(State { bucket, arrivals: 0, waiting: BTreeMap::new() }) }
    }

    /// Returns when it is the caller's turn. Dropping the future gives the place up.
    pub(crate) async fn pass(&self, priority: Priority) {
        let place = self.queue_up(priority);
        loop {
            match self.look(&place) {
                Look::Through => return,
                Look::TokenIn(wait) => {
                    // Somebody more urgent may come meanwhile; the next look tells.
                    tokio::time::sleep(wait).await;
                }
                Look::Behind => place.in_front.notified().await,
            }
        }
    }

    fn queue_up(&self, priority: Priority) -> Place<'_> {
        let in_front = Arc::new(Notify::new());
        let mut state = self.state();
        state.arrivals += 1;
        let ticket = (priority, state.arrivals);
        state.waiting.insert(ticket, in_front.clone());
        Place { turnstile: self, ticket, in_front }
    }

    fn look(&self, place: &Place<'_>) -> Look {
        let mut state = self.state();
        if state.waiting.first_key_value().map(|(ticket, _)| *ticket) != Some(place.ticket) {
            return Look::Behind;
        }
        match state.bucket.take(Instant::now()) {
            Ok(()) => Look::Through,
            Err(wait) => Look::TokenIn(wait),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Look {
    Through,
    TokenIn(Duration),
    Behind,
}

/// A place in the queue. The next one is told when it is left, with or without a turn.
struct Place<'a> {
    turnstile: &'a Turnstile,
    ticket: Ticket,
    in_front: Arc<Notify>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.turnstile.state();
        state.waiting.remove(&self.ticket);
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

    fn one_a_second() -> Turnstile {
        Turnstile::new(Rate { per_second: 1, burst: 1 })
    }

    #[tokio::test(start_paused = true)]
    async fn urgent_callers_go_first_and_equals_in_order() {
        let turnstile = one_a_second();
        turnstile.pass(Priority::Normal).await;
        let caller = async |name, priority, arrives: u64| {
            tokio::time::sleep(Duration::from_millis(arrives)).await;
            turnstile.pass(priority).await;
            name
        };
        let passing: FuturesUnordered<_> = [
            caller("first", Priority::Normal, 10),
            caller("second", Priority::Normal, 20),
            caller("urgent", Priority::Urgent, 30),
            // Comes while "first" sleeps in front, after one token was given to "urgent".
            caller("more urgent", Priority::Urgent, 1500),
        ]
        .into_iter()
        .collect();
        let order: Vec<_> = passing.collect().await;
        assert_eq!(order, ["urgent", "more urgent", "first", "second"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_holds_nobody() {
        let turnstile = one_a_second();
        turnstile.pass(Priority::Normal).await;
        let start = Instant::now();
        let gives_up = tokio::time::timeout(Duration::from_millis(100), turnstile.pass(Priority::Urgent));
        let (gave_up, ()) = tokio::join!(gives_up, turnstile.pass(Priority::Normal));
        assert!(gave_up.is_err());
        assert!(start.elapsed() < Duration::from_millis(1100), "{:?}", start.elapsed());
        assert!(turnstile.state().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_holds_over_many_callers() {
        let turnstile = Turnstile::new(Rate { per_second: 50, burst: 100 });
        let start = Instant::now();
        let callers: FuturesUnordered<_> = (0..600).map(|_| turnstile.pass(Priority::Normal)).collect();
        assert_eq!(callers.count().await, 600);
        // 100 at once, 500 at 50 a second; the timers of a paused clock are exact to a millisecond.
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
    }
}
