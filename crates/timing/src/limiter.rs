//! A bound on operations at the same time that slow operations do not exhaust.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Issues permits in the order of the requests. An operation that lasts longer than `max_hold` goes on without its permit, so
/// that operations that hang delay others for a limited time.
pub struct Limiter {
    permits: Arc<Semaphore>,
    max_hold: Duration,
}

impl fmt::Debug for Limiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Limiter").field("available", &self.available()).finish_non_exhaustive()
    }
}

impl Limiter {
    #[must_use]
    pub fn new(permits: usize, max_hold: Duration) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits)), max_hold }
    }

    /// Creates the permit of one operation. It is not acquired yet.
    #[must_use]
    pub fn permit(&self) -> Permit {
        Permit {
            permits: Arc::clone(&self.permits),
            max_hold: self.max_hold,
            permit: Mutex::new(None),
            acquired: Notify::new(),
        }
    }

    /// Runs `work` as soon as a permit is free.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let permit = self.permit();
        let work = async {
            permit.acquire().await;
            work.await
        };
        permit.run(work).await
    }

    /// The number of free permits.
    #[must_use]
    pub fn available(&self) -> usize {
        self.permits.available_permits()
    }
}

/// The permit of one operation; released when dropped at the latest.
pub struct Permit {
    permits: Arc<Semaphore>,
    max_hold: Duration,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    acquired: Notify,
}

impl fmt::Debug for Permit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Permit").field("held", &self.permit.lock().is_some()).finish_non_exhaustive()
    }
}

impl Permit {
    pub async fn acquire(&self) {
        // The semaphore is never closed; if it were, the operation would go on without a permit.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        *self.permit.lock() = permit;
        self.acquired.notify_one();
    }

    /// Runs `work`, which calls [`Permit::acquire`]. Releases the permit after `max_hold`; the work then goes on.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let hold_expired = async {
            self.acquired.notified().await;
            tokio::time::sleep(self.max_hold).await;
        };
        tokio::select! {
            done = &mut work => {
                drop(self.permit.lock().take());
                return done;
            }
            () = hold_expired => drop(self.permit.lock().take()),
        }
        work.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_HOLD: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn operations_that_hang_give_their_permits_back() {
        let limiter = Limiter::new(8, MAX_HOLD);
        let stuck = futures::future::join_all((0..8).map(|_| limiter.run(std::future::pending::<()>())));
        let next = limiter.run(async {});
        tokio::select! {
            _ = stuck => unreachable!("stuck operations never end"),
            done = tokio::time::timeout(MAX_HOLD + Duration::from_millis(1), next) => done.unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn limits_operations_in_request_order() {
        let (limiter, started) = (Limiter::new(16, MAX_HOLD), tokio::time::Instant::now());
        let second = Duration::from_secs(1);
        let ends = (0..40).map(|_| async {
            limiter.run(async { tokio::time::sleep(second).await }).await;
            started.elapsed().as_secs()
        });
        let ends = futures::future::join_all(ends).await;
        let expected: Vec<u64> = (0..40).map(|index| index / 16 + 1).collect();
        assert_eq!(ends, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_operation_releases_its_permit() {
        let limiter = Limiter::new(8, MAX_HOLD);
        for _ in 0..20 {
            let hanging = limiter.run(std::future::pending::<()>());
            assert!(tokio::time::timeout(Duration::from_millis(1), hanging).await.is_err());
        }
        limiter.run(async {}).await;
        assert_eq!(limiter.available(), 8);
    }
}
