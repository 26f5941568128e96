//! Answers of the API server, remembered for a while; the same question is under way only once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use ports::api::ApiError;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Questions under way at once: strangers must not fill the API server's queue.
const AT_ONCE: usize = 32;
/// All tries of a question together, as upstream's.
const DEADLINE: Duration = Duration::from_secs(10);
/// Pauses between tries, as upstream's.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_millis(750),
    Duration::from_millis(1125),
    Duration::from_millis(1688),
];

type Answer<V> = Result<V, ApiError>;
type UnderWay<V> = Shared<BoxFuture<'static, Answer<V>>>;

/// Verdicts by question. Never holds more than its limit.
pub(super) struct Verdicts<K, V> {
    limit: usize,
    known: Mutex<HashMap<K, Known<V>>>,
    turns: std::sync::Arc<Semaphore>,
}

enum Known<V> {
    /// Good until then.
    Answered(V, Instant),
    /// Somebody waits for it, as long as it can be upgraded.
    Asked(WeakShared<BoxFuture<'static, Answer<V>>>),
}

impl<K, V> Verdicts<K, V>
where
    K: Clone + Eq + Hash,
    V: Clone + Send + Sync + 'static,
{
    pub(super) fn new(limit: usize) -> Self {
        let turns = std::sync::Arc::new(Semaphore::new(AT_ONCE));
        Self { limit, known: Mutex::new(HashMap::new()), turns }
    }

    /// The verdict, remembered or asked for. Failures are not remembered.
    pub(super) async fn get<F>(
        &self,
        key: K,
        ask: impl FnMut() -> F + Send + 'static,
        ttl: impl Fn(&V) -> Duration,
    ) -> Answer<V>
    where
        F: Future<Output = Answer<V>> + Send + 'static,
    {
        let under_way = match self.find(&key, ask) {
            Ok(verdict) => return Ok(verdict),
            Err(under_way) => under_way,
        };
        let answer = under_way.await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &answer {
            Ok(verdict) => {
                let until = Instant::now() + ttl(verdict);
                known.insert(key, Known::Answered(verdict.clone(), until));
            }
            Err(_) => {
                known.remove(&key);
            }
        }
        answer
    }

    fn find<F>(&self, key: &K, ask: impl FnMut() -> F + Send + 'static) -> Result<V, UnderWay<V>>
    where
        F: Future<Output = Answer<V>> + Send + 'static,
    {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match known.get(key) {
            Some(Known::Answered(verdict, until)) if *until > now => return Ok(verdict.clone()),
            Some(Known::Asked(asked)) => {
                if let Some(under_way) = asked.upgrade() {
                    return Err(under_way);
                }
            }
            Some(Known::Answered(..)) | None => {}
        }
        make_room(&mut known, self.limit, now);
        let under_way = patiently(self.turns.clone(), ask).boxed().shared();
        if let Some(weak) = under_way.downgrade() {
            known.insert(key.clone(), Known::Asked(weak));
        }
        Err(under_way)
    }
}

/// Asks, again after a pause while it may help.
async fn patiently<V, F>(turns: std::sync::Arc<Semaphore>, mut ask: impl FnMut() -> F) -> Answer<V>
where
    F: Future<Output = Answer<V>>,
{
    let tries = async {
        let _turn = turns.acquire().await;
        let mut pauses = PAUSES.iter();
        loop {
            let answer = ask().await;
            match (&answer, pauses.next()) {
                (Err(error), Some(pause)) if error.is_transient() => {
                    tokio::time::sleep((*pause).max(error.retry_after.unwrap_or_default())).await;
                }
                _ => return answer,
            }
        }
    };
    tokio::time::timeout(DEADLINE, tries).await.unwrap_or_else(|_| {
        Err(ApiError {
            kind: ports::api::ApiErrorKind::Unreachable,
            message: format!("no answer from the API server in {} s", DEADLINE.as_secs()),
            retry_after: None,
        })
    })
}

/// Room for one more: what is over goes first, then what ends soonest.
fn make_room<K: Clone + Eq + Hash, V>(known: &mut HashMap<K, Known<V>>, limit: usize, now: Instant) {
    if known.len() < limit {
        return;
    }
    known.retain(|_, entry| match entry {
        Known::Answered(_, until) => *until > now,
        Known::Asked(asked) => asked.upgrade().is_some(),
    });
    // A tenth at once, so that a full table is not searched for each question.
    let excess = (known.len() + limit / 10 + 1).saturating_sub(limit);
    let mut ends: Vec<(Instant, K)> = (known.iter())
        .filter_map(|(key, entry)| match entry {
            Known::Answered(_, until) => Some((*until, key.clone())),
            Known::Asked(_) => None,
        })
        .collect();
    if known.len() < limit {
        return;
    }
    ends.sort_by_key(|(until, _)| *until);
    for (_, key) in ends.into_iter().take(excess) {
        known.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ports::api::ApiErrorKind;

    use super::*;

    const TTL: Duration = Duration::from_secs(5);

    struct Counted {
        verdicts: Verdicts<u32, u32>,
        asked: Arc<AtomicUsize>,
    }

    impl Counted {
        fn new(limit: usize) -> Self {
            Self { verdicts: Verdicts::new(limit), asked: Arc::default() }
        }

        async fn get(&self, key: u32, answer: Answer<u32>) -> Answer<u32> {
            let asked = self.asked.clone();
            let ask = move || {
                asked.fetch_add(1, Ordering::SeqCst);
                let answer = answer.clone();
                async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    answer
                }
            };
            self.verdicts.get(key, ask, |_| TTL).await
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    fn error(kind: ApiErrorKind) -> Answer<u32> {
        Err(ApiError { kind, message: "no".to_owned(), retry_after: None })
    }

    #[tokio::test(start_paused = true)]
    async fn a_verdict_is_asked_for_once_in_its_time() {
        let counted = Counted::new(10);
        let both = tokio::join!(counted.get(1, Ok(7)), counted.get(1, Ok(8)));
        assert_eq!(both, (Ok(7), Ok(7)), "the second waits for the first");
        assert_eq!(counted.get(1, Ok(9)).await, Ok(7));
        assert_eq!(counted.asked(), 1);
        tokio::time::advance(TTL).await;
        assert_eq!(counted.get(1, Ok(9)).await, Ok(9));
        assert_eq!(counted.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_tried_again_and_not_remembered() {
        let counted = Counted::new(10);
        assert!(counted.get(1, error(ApiErrorKind::Forbidden)).await.is_err());
        assert_eq!(counted.asked(), 1, "trying again is of no use");
        assert!(counted.get(1, error(ApiErrorKind::Server)).await.is_err());
        assert_eq!(counted.asked(), 6);
        assert_eq!(counted.get(1, Ok(1)).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_whose_asker_went_away_is_asked_again() {
        let counted = Counted::new(10);
        let gone = tokio::time::timeout(Duration::from_millis(10), counted.get(1, Ok(1))).await;
        assert!(gone.is_err());
        assert_eq!(counted.get(1, Ok(2)).await, Ok(2));
        assert_eq!(counted.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_kept_than_the_limit() {
        let counted = Counted::new(20);
        for key in 0..100 {
            counted.get(key, Ok(key)).await.unwrap();
            assert!(counted.verdicts.known.lock().unwrap().len() <= 20);
        }
        assert_eq!(counted.get(99, Ok(1000)).await, Ok(99), "the newest stay");
    }
}
