//! Turns at starting pods. More at once than the processors can work on only get in each other's way: all of them then come
//! late, where some could run already.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use decide::starts::starts_at_once;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// After this long a turn is over, whatever became of it: a pod that waits for something else than a processor, such as a
/// network that hangs or an image that is fetched, holds up no others.
const LONGEST: Duration = Duration::from_secs(2);

/// Hands out turns in the order of asking.
pub(super) struct Turns(Arc<Semaphore>);

impl Turns {
    /// For a machine with these processors.
    pub(super) fn new(cpus: usize) -> Self {
        Self(Arc::new(Semaphore::new(starts_at_once(cpus))))
    }

    /// To be used by one start.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket { turns: Arc::clone(&self.0), place: Mutex::new(None), called: Notify::new() }
    }
}

/// The place of one start in the queue; its turn ends with it at the latest.
pub(super) struct Ticket {
    turns: Arc<Semaphore>,
    place: Mutex<Option<OwnedSemaphorePermit>>,
    called: Notify,
}

impl Ticket {
    /// Waits for the turn.
    pub(super) async fn wait(&self) {
        // Never closed; without a place the work is done all the same.
        let place = Arc::clone(&self.turns).acquire_owned().await.ok();
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
        self.called.notify_one();
    }

    /// Does work that waits for the turn somewhere within; one that takes long goes on without it.
    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let long = async {
            self.called.notified().await;
            tokio::time::sleep(LONGEST).await;
        };
        tokio::select! {
            done = &mut work => return done,
            () = long => drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take()),
        }
        work.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn start(turns: &Turns, work: impl Future<Output = ()>) {
        let ticket = turns.ticket();
        let work = async {
            ticket.wait().await;
            work.await;
        };
        ticket.during(work).await;
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_long_holds_up_nobody_else_for_long() {
        let turns = Turns::new(1);
        let stuck = futures::future::join_all((0..8).map(|_| start(&turns, std::future::pending())));
        let next = start(&turns, async {});
        tokio::select! {
            _ = stuck => unreachable!("they never end"),
            done = tokio::time::timeout(LONGEST + Duration::from_millis(1), next) => done.unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_begin_as_there_is_work_for_and_the_first_are_done_first() {
        let (turns, begun) = (Turns::new(4), tokio::time::Instant::now());
        let second = Duration::from_secs(1);
        let ends = (0..40).map(|_| async {
            start(&turns, async { tokio::time::sleep(second).await }).await;
            begun.elapsed().as_secs()
        });
        let ends = futures::future::join_all(ends).await;
        let expected: Vec<u64> = (0..40).map(|at| at / 16 + 1).collect();
        assert_eq!(ends, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_stops_waiting_keeps_no_place() {
        let turns = Turns::new(1);
        for _ in 0..20 {
            let waited =
                tokio::time::timeout(Duration::from_millis(1), start(&turns, std::future::pending()));
            assert!(waited.await.is_err());
        }
        start(&turns, async {}).await;
        assert_eq!(turns.0.available_permits(), 8);
    }
}
