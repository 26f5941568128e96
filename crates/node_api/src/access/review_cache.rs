//! A cache of the API server's reviews of tokens and permissions. Concurrent requests for the same key share one call.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use ports::api::ApiError;
use timing::{Backoff, BackoffPolicy, random};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Unauthenticated clients must not fill the API server's queue.
const MAX_CONCURRENT_REVIEWS: usize = 32;
/// For all attempts of one review together, as upstream.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts of one review and the delays between them, as upstream.
const MAX_ATTEMPTS: u32 = 5;
const BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_millis(500), Duration::from_secs(10)).with_factor(1.5);

type ReviewResult<V> = Result<V, ApiError>;
type SharedReview<V> = Shared<BoxFuture<'static, ReviewResult<V>>>;

/// Never holds more than `limit` entries.
pub(super) struct ReviewCache<K, V> {
    limit: usize,
    entries: Mutex<HashMap<K, CacheEntry<V>>>,
    permits: Arc<Semaphore>,
}

enum CacheEntry<V> {
    /// Valid until then.
    Cached(V, Instant),
    /// In flight as long as it can be upgraded: its waiters own the call.
    InFlight(WeakShared<BoxFuture<'static, ReviewResult<V>>>),
}

impl<K, V> ReviewCache<K, V>
where
    K: Clone + Eq + Hash,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new(limit: usize) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_REVIEWS));
        Self { limit, entries: Mutex::new(HashMap::new()), permits }
    }

    /// The cached value, or the result of `review`. Errors are not cached.
    pub(super) async fn get<F>(
        &self,
        key: K,
        review: impl FnMut() -> F + Send + 'static,
        ttl: impl Fn(&V) -> Duration,
    ) -> ReviewResult<V>
    where
        F: Future<Output = ReviewResult<V>> + Send + 'static,
    {
        let in_flight = match self.find_or_start(&key, review) {
            Ok(value) => return Ok(value),
            Err(in_flight) => in_flight,
        };
        let result = in_flight.await;
        let mut entries = self.entries.lock();
        match &result {
            Ok(value) => {
                let until = Instant::now() + ttl(value);
                entries.insert(key, CacheEntry::Cached(value.clone(), until));
            }
            Err(_) => {
                entries.remove(&key);
            }
        }
        result
    }

    fn find_or_start<F>(
        &self,
        key: &K,
        review: impl FnMut() -> F + Send + 'static,
    ) -> Result<V, SharedReview<V>>
    where
        F: Future<Output = ReviewResult<V>> + Send + 'static,
    {
        let mut entries = self.entries.lock();
        let now = Instant::now();
        match entries.get(key) {
            Some(CacheEntry::Cached(value, until)) if *until > now => return Ok(value.clone()),
            Some(CacheEntry::InFlight(weak)) => {
                if let Some(in_flight) = weak.upgrade() {
                    return Err(in_flight);
                }
            }
            Some(CacheEntry::Cached(..)) | None => {}
        }
        evict(&mut entries, self.limit, now);
        // Only reviews in flight are left.
        if entries.len() >= self.limit {
            return Err(std::future::ready(Err(overloaded())).boxed().shared());
        }
        let in_flight = review_with_retries(self.permits.clone(), review).boxed().shared();
        if let Some(weak) = in_flight.downgrade() {
            entries.insert(key.clone(), CacheEntry::InFlight(weak));
        }
        Err(in_flight)
    }
}

/// Retries transient errors.
async fn review_with_retries<V, F>(permits: Arc<Semaphore>, mut review: impl FnMut() -> F) -> ReviewResult<V>
where
    F: Future<Output = ReviewResult<V>>,
{
    let attempts = async {
        let _permit = permits.acquire().await;
        let mut backoff = Backoff::new(BACKOFF);
        loop {
            let result = review().await;
            let Err(error) = &result else { return result };
            let delay = backoff.next(random());
            if !error.is_transient() || backoff.failures() == MAX_ATTEMPTS {
                return result;
            }
            tokio::time::sleep(delay.max(error.retry_after.unwrap_or_default())).await;
        }
    };
    tokio::time::timeout(REVIEW_TIMEOUT, attempts).await.unwrap_or_else(|_| {
        Err(ApiError {
            kind: ports::api::ApiErrorKind::Unreachable,
            message: format!("no answer from the API server in {} s", REVIEW_TIMEOUT.as_secs()),
            retry_after: None,
        })
    })
}

fn overloaded() -> ApiError {
    ApiError {
        kind: ports::api::ApiErrorKind::Unreachable,
        message: "too many requests wait for reviews of the API server".to_owned(),
        retry_after: None,
    }
}

/// Makes space for one more entry: removes expired entries first, then those that expire soonest.
fn evict<K: Clone + Eq + Hash, V>(entries: &mut HashMap<K, CacheEntry<V>>, limit: usize, now: Instant) {
    if entries.len() < limit {
        return;
    }
    entries.retain(|_, entry| match entry {
        CacheEntry::Cached(_, until) => *until > now,
        CacheEntry::InFlight(weak) => weak.upgrade().is_some(),
    });
    // Removes a tenth at once, so that a full cache is not searched for each request.
    let excess = (entries.len() + limit / 10 + 1).saturating_sub(limit);
    let mut expiries: Vec<(Instant, K)> = (entries.iter())
        .filter_map(|(key, entry)| match entry {
            CacheEntry::Cached(_, until) => Some((*until, key.clone())),
            CacheEntry::InFlight(_) => None,
        })
        .collect();
    if entries.len() < limit {
        return;
    }
    expiries.sort_by_key(|(until, _)| *until);
    for (_, key) in expiries.into_iter().take(excess) {
        entries.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ports::api::ApiErrorKind;

    use super::*;

    const TTL: Duration = Duration::from_secs(5);

    struct Fixture {
        cache: ReviewCache<u32, u32>,
        calls: Arc<AtomicUsize>,
    }

    impl Fixture {
        fn new(limit: usize) -> Self {
            Self { cache: ReviewCache::new(limit), calls: Arc::default() }
        }

        async fn get(&self, key: u32, result: ReviewResult<u32>) -> ReviewResult<u32> {
            let calls = self.calls.clone();
            let review = move || {
                calls.fetch_add(1, Ordering::SeqCst);
                let result = result.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    result
                }
            };
            self.cache.get(key, review, |_| TTL).await
        }

        fn calls(&self) -> usize {
            self.calls.load(Ordering::SeqCst)
        }
    }

    fn error(kind: ApiErrorKind) -> ReviewResult<u32> {
        Err(ApiError { kind, message: "no".to_owned(), retry_after: None })
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_key_once_per_ttl() {
        let fixture = Fixture::new(10);
        let both = tokio::join!(fixture.get(1, Ok(7)), fixture.get(1, Ok(8)));
        assert_eq!(both, (Ok(7), Ok(7)), "the second waits for the first");
        assert_eq!(fixture.get(1, Ok(9)).await, Ok(7));
        assert_eq!(fixture.calls(), 1);
        tokio::time::advance(TTL).await;
        assert_eq!(fixture.get(1, Ok(9)).await, Ok(9));
        assert_eq!(fixture.calls(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn retries_transient_errors_and_caches_none() {
        let fixture = Fixture::new(10);
        assert!(fixture.get(1, error(ApiErrorKind::Forbidden)).await.is_err());
        assert_eq!(fixture.calls(), 1, "not transient");
        assert!(fixture.get(1, error(ApiErrorKind::Server)).await.is_err());
        assert_eq!(fixture.calls(), 6);
        assert_eq!(fixture.get(1, Ok(1)).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_again_when_caller_was_cancelled() {
        let fixture = Fixture::new(10);
        let cancelled = tokio::time::timeout(Duration::from_millis(10), fixture.get(1, Ok(1))).await;
        assert!(cancelled.is_err());
        assert_eq!(fixture.get(1, Ok(2)).await, Ok(2));
        assert_eq!(fixture.calls(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_in_flight_count_against_the_limit() {
        let fixture = Fixture::new(2);
        let results = tokio::join!(fixture.get(1, Ok(1)), fixture.get(2, Ok(2)), fixture.get(3, Ok(3)));
        assert_eq!((results.0, results.1), (Ok(1), Ok(2)));
        assert!(results.2.unwrap_err().message.starts_with("too many requests"));
        assert_eq!(fixture.get(3, Ok(3)).await, Ok(3));
    }

    #[tokio::test(start_paused = true)]
    async fn never_exceeds_limit_and_keeps_newest() {
        let fixture = Fixture::new(20);
        for key in 0..100 {
            fixture.get(key, Ok(key)).await.unwrap();
            assert!(fixture.cache.entries.lock().len() <= 20);
        }
        assert_eq!(fixture.get(99, Ok(1000)).await, Ok(99), "the newest stay");
    }
}
