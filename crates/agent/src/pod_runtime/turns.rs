//! Turns at making sandboxes. More at once than the processors can work on only get in each other's way: all of them then
//! come late, where some could run already.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// After this long a turn is over, whatever became of it: a sandbox that waits for something else than a processor, such as a
/// network that hangs, holds up no others.
const LONGEST: Duration = Duration::from_secs(2);

/// Hands out turns in the order of asking.
pub(super) struct Turns(Semaphore);

impl Turns {
    /// As many at once as keep these processors busy.
    pub(super) fn new(cpus: usize) -> Self {
        Self(Semaphore::new((4 * cpus).max(8)))
    }

    pub(super) async fn next(&self) -> Turn<'_> {
        // Never closed; without a place the work is done all the same.
        Turn { _place: self.0.acquire().await.ok() }
    }
}

/// The right to begin.
pub(super) struct Turn<'a> {
    _place: Option<SemaphorePermit<'a>>,
}

impl Turn<'_> {
    /// Does the work to its end, and lets the next one begin by then at the latest.
    pub(super) async fn during<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(LONGEST) => drop(self),
        }
        work.await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_long_holds_up_nobody_else_for_long() {
        let turns = Turns::new(1);
        let stuck = futures::future::join_all((0..8).map(|_| async {
            turns.next().await.during(std::future::pending::<()>()).await;
        }));
        let next = async { turns.next().await.during(async {}).await };
        tokio::select! {
            _ = stuck => unreachable!("they never end"),
            done = tokio::time::timeout(LONGEST + Duration::from_millis(1), next) => done.unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_begin_as_there_is_work_for() {
        let turns = Turns::new(4);
        let held: Vec<_> = std::iter::from_fn(|| turns.next().now_or_never()).collect();
        assert_eq!(held.len(), 16);
        drop(held);
        assert!(turns.next().now_or_never().is_some());
    }
}
