//! A whole set of the API server's, such as its services, followed by a watch.
//!
//! While the server is away the set stays as it was. [`Followed::known`] and [`Followed::seed`] carry it over a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use ports::api::{Feed, FeedStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The set.
pub struct Followed<V> {
    key: fn(&V) -> String,
    rows: RwLock<BTreeMap<String, Arc<V>>>,
    reading: watch::Sender<Reading>,
}

/// How far the set is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    is_listed: bool,
    is_seeded: bool,
    has_failed: bool,
}

impl Reading {
    /// What was seeded serves only when the server cannot be asked.
    fn is_usable(&self) -> bool {
        self.is_listed || (self.is_seeded && self.has_failed)
    }
}

impl<V: Clone + PartialEq> Followed<V> {
    /// An empty set of objects that a key tells apart.
    #[must_use]
    pub fn new(key: fn(&V) -> String) -> Self {
        Self { key, rows: RwLock::default(), reading: watch::Sender::default() }
    }

    /// Waits until the set was read once; `false` when it was not in that time.
    pub async fn is_read(&self, patience: Duration) -> bool {
        let mut reading = self.reading.subscribe();
        tokio::time::timeout(patience, reading.wait_for(Reading::is_usable)).await.is_ok()
    }

    /// Whether the server itself has told the set.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.reading.borrow().is_listed
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<V>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// All objects, by key.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<V>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The whole set, for a store that outlives the agent.
    #[must_use]
    pub fn known(&self) -> Vec<V> {
        self.all().iter().map(|object| (**object).clone()).collect()
    }

    /// Takes what an earlier agent knew, unless the server has spoken.
    pub fn seed(&self, objects: Vec<V>) {
        if !self.reading.borrow().is_listed {
            self.replace(objects);
            self.reading.send_modify(|reading| reading.is_seeded = true);
        }
    }

    fn take(&self, item: Feed<V>) {
        match item {
            Feed::Listed(objects) => {
                self.replace(objects);
                self.reading.send_modify(|reading| reading.is_listed = true);
            }
            Feed::Applied(object) => {
                let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
                rows.insert((self.key)(&object), Arc::new(object));
            }
            Feed::Deleted(object) => {
                self.rows.write().unwrap_or_else(PoisonError::into_inner).remove(&(self.key)(&object));
            }
            Feed::Failed(error) => {
                tracing::debug!(%error, "a set of the API server cannot be followed; trying again");
                self.reading.send_modify(|reading| reading.has_failed = true);
            }
        }
    }

    fn replace(&self, objects: Vec<V>) {
        let rows = objects.into_iter().map(|object| ((self.key)(&object), Arc::new(object))).collect();
        *self.rows.write().unwrap_or_else(PoisonError::into_inner) = rows;
    }
}

/// Keeps the set in line with its watch. Runs until cancelled.
pub async fn follow<V: Clone + PartialEq>(
    set: Arc<Followed<V>>,
    mut feed: FeedStream<V>,
    cancel: CancellationToken,
) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            item = feed.next() => match item {
                Some(item) => set.take(item),
                None => return,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use ports::api::{ApiError, ApiErrorKind};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_set_is_what_the_watch_says() {
        let set = Followed::new(|text: &String| text.chars().take(1).collect());
        assert!(!set.is_read(SECOND).await);
        let text = |text: &str| text.to_owned();
        set.take(Feed::Listed(vec![text("a1"), text("b1")]));
        assert!(set.is_read(SECOND).await);
        set.take(Feed::Applied(text("a2")));
        set.take(Feed::Deleted(text("b1")));
        set.take(Feed::Applied(text("c1")));
        assert_eq!(set.known(), ["a2", "c1"]);
        assert_eq!(set.get("a").as_deref(), Some(&text("a2")));
        set.seed(vec![text("z")]);
        assert_eq!(set.known(), ["a2", "c1"], "the server has spoken");
    }

    #[tokio::test(start_paused = true)]
    async fn a_seed_serves_only_while_the_server_is_away() {
        let set = Followed::new(String::clone);
        set.seed(vec!["a".to_owned()]);
        assert!(!set.is_read(SECOND).await, "the server may answer yet");
        let error = ApiError { kind: ApiErrorKind::Unreachable, message: String::new(), retry_after: None };
        set.take(Feed::Failed(error));
        assert!(set.is_read(SECOND).await);
        assert_eq!(set.known(), ["a"]);
        set.take(Feed::Listed(Vec::new()));
        assert!(set.known().is_empty());
    }
}
