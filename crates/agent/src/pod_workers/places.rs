use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Passes that begin side by side. A thousand pods that come at once are not up earlier when all of them begin at once,
/// but everything they would then hold at one time is memory that the node has to have.
const PLACES: usize = 64;
/// A pass that takes longer gives its place to the next one, so that slow ones hold up nobody.
const PLACE_TIME: Duration = Duration::from_secs(1);

/// Places for passes.
#[derive(Clone)]
pub(super) struct Places(Arc<Semaphore>);

impl Places {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(PLACES)))
    }

    /// Makes a pass once there is a place for it. One that is interrupted does not wait: it ends by itself, and soon.
    pub(super) async fn make<T>(
        &self,
        interruption: &CancellationToken,
        pass: impl Future<Output = T> + Send,
    ) -> T {
        let place = tokio::select! {
            // Nobody closes the semaphore.
            place = self.0.acquire() => place.ok(),
            () = interruption.cancelled() => None,
        };
        let mut pass = pin!(pass);
        match tokio::time::timeout(PLACE_TIME, pass.as_mut()).await {
            Ok(ended) => ended,
            Err(_) => {
                drop(place);
                pass.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    fn never() -> CancellationToken {
        CancellationToken::new()
    }

    #[tokio::test(start_paused = true)]
    async fn quick_passes_take_turns() {
        let (places, now, most) =
            (Places::new(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..500 {
            let (places, now, most) = (places.clone(), Arc::clone(&now), Arc::clone(&most));
            tasks.spawn(async move {
                let pass = async {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(PLACE_TIME / 10).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                };
                places.make(&never(), pass).await;
            });
        }
        while tasks.join_next().await.is_some() {}
        assert_eq!(most.load(Ordering::SeqCst), PLACES);
    }

    #[tokio::test(start_paused = true)]
    async fn passes_that_hang_hold_up_nobody_for_long() {
        let places = Places::new();
        let mut hanging = JoinSet::new();
        for _ in 0..PLACES {
            let places = places.clone();
            hanging.spawn(async move { places.make(&never(), std::future::pending::<()>()).await });
        }
        // Time passes only when all of them hang.
        tokio::time::sleep(PLACE_TIME / 2).await;
        let begun = tokio::time::Instant::now();
        places.make(&never(), async {}).await;
        let waited = begun.elapsed();
        assert!(Duration::ZERO < waited && waited < PLACE_TIME, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_interrupted_pass_does_not_wait() {
        let places = Places::new();
        let mut hanging = JoinSet::new();
        for _ in 0..PLACES {
            let places = places.clone();
            hanging.spawn(async move { places.make(&never(), std::future::pending::<()>()).await });
        }
        // Time passes only when all of them hang.
        tokio::time::sleep(PLACE_TIME / 2).await;
        let interruption = never();
        interruption.cancel();
        let begun = tokio::time::Instant::now();
        places.make(&interruption, async {}).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
