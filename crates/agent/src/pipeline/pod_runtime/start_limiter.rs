//! Limits the number of pods that start in parallel. With more starts than the CPUs can handle all pods become ready late,
//! instead of some of them early.

use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use decide::pipeline::start_limit::max_parallel_starts;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A permit is released after this time even if the start goes on, so that a pod that waits for its network or an image
/// pull does not block others.
const MAX_HOLD: Duration = Duration::from_secs(2);

/// Issues permits in the order of the requests.
pub(super) struct StartLimiter(Arc<Semaphore>);

impl StartLimiter {
    pub(super) fn new(cpus: usize) -> Self {
        Self(Arc::new(Semaphore::new(max_parallel_starts(cpus))))
    }

    /// Creates the permit of one start. It is not acquired yet.
    pub(super) fn permit(&self) -> StartPermit {
        StartPermit { semaphore: Arc::clone(&self.0), permit: Mutex::new(None), acquired: Notify::new() }
    }
}

/// The permit of one start; released when dropped at the latest.
pub(super) struct StartPermit {
    semaphore: Arc<Semaphore>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    acquired: Notify,
}

impl StartPermit {
    pub(super) async fn acquire(&self) {
        // The semaphore is never closed; if it were, the start would go on without a permit.
        let permit = Arc::clone(&self.semaphore).acquire_owned().await.ok();
        *self.permit.lock() = permit;
        self.acquired.notify_one();
    }

    /// Runs `work`, which calls [`StartPermit::acquire`]. Releases the permit after `MAX_HOLD`; the work then goes on.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let hold_expired = async {
            self.acquired.notified().await;
            tokio::time::sleep(MAX_HOLD).await;
        };
        tokio::select! {
            done = &mut work => return done,
            () = hold_expired => drop(self.permit.lock().take()),
        }
        work.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn start(limiter: &StartLimiter, work: impl Future<Output = ()>) {
        let permit = limiter.permit();
        let work = async {
            permit.acquire().await;
            work.await;
        };
        permit.run(work).await;
    }

    #[tokio::test(start_paused = true)]
    async fn releases_permit_of_slow_start_after_max_hold() {
        let limiter = StartLimiter::new(1);
        let stuck = futures::future::join_all((0..8).map(|_| start(&limiter, std::future::pending())));
        let next = start(&limiter, async {});
        tokio::select! {
            _ = stuck => unreachable!("stuck starts never end"),
            done = tokio::time::timeout(MAX_HOLD + Duration::from_millis(1), next) => done.unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn limits_parallel_starts_in_request_order() {
        let (limiter, started) = (StartLimiter::new(4), tokio::time::Instant::now());
        let second = Duration::from_secs(1);
        let ends = (0..40).map(|_| async {
            start(&limiter, async { tokio::time::sleep(second).await }).await;
            started.elapsed().as_secs()
        });
        let ends = futures::future::join_all(ends).await;
        let expected: Vec<u64> = (0..40).map(|index| index / 16 + 1).collect();
        assert_eq!(ends, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_start_releases_its_permit() {
        let limiter = StartLimiter::new(1);
        for _ in 0..20 {
            let waited =
                tokio::time::timeout(Duration::from_millis(1), start(&limiter, std::future::pending()));
            assert!(waited.await.is_err());
        }
        start(&limiter, async {}).await;
        assert_eq!(limiter.0.available_permits(), 8);
    }
}
