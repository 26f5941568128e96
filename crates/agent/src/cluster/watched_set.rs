//! All objects of one kind, such as services, kept up to date by a watch.
//!
//! While the API server is unreachable the set does not change. [`WatchedSet::export`] and [`WatchedSet::seed`] transfer it to the next agent.

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use ports::api::{ApiError, ApiErrorKind, Feed, FeedStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub struct WatchedSet<V> {
    key: fn(&V) -> String,
    rows: RwLock<BTreeMap<String, Arc<V>>>,
    state: watch::Sender<ReadState>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReadState {
    is_listed: bool,
    is_seeded: bool,
    has_failed: bool,
}

impl ReadState {
    /// Seeded objects are used only after a request to the server has failed.
    fn is_usable(&self) -> bool {
        self.is_listed || (self.is_seeded && self.has_failed)
    }
}

impl<V: Clone + PartialEq> WatchedSet<V> {
    /// `key` identifies an object within the set.
    #[must_use]
    pub fn new(key: fn(&V) -> String) -> Self {
        Self { key, rows: RwLock::default(), state: watch::Sender::default() }
    }

    /// Waits until the set has been read once; `false` after the timeout.
    pub async fn wait_until_read(&self, timeout: Duration) -> bool {
        let mut state = self.state.subscribe();
        tokio::time::timeout(timeout, state.wait_for(ReadState::is_usable)).await.is_ok()
    }

    /// Whether the set comes from the server, not from a seed.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.state.borrow().is_listed
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<V>> {
        self.rows.read().get(key).cloned()
    }

    /// All objects in the order of their keys.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<V>> {
        self.rows.read().values().cloned().collect()
    }

    /// The whole set, for the offline cache.
    #[must_use]
    pub fn export(&self) -> Vec<V> {
        self.all().iter().map(|object| (**object).clone()).collect()
    }

    /// Sets the objects of the previous agent, unless the set was already listed.
    pub fn seed(&self, objects: Vec<V>) {
        if !self.state.borrow().is_listed {
            self.replace(objects);
            self.state.send_modify(|state| state.is_seeded = true);
        }
    }

    pub(crate) fn apply(&self, item: Feed<V>) {
        match item {
            Feed::Listed(objects) => {
                self.replace(objects);
                self.state.send_modify(|state| state.is_listed = true);
            }
            Feed::Applied(object) => {
                let mut rows = self.rows.write();
                rows.insert((self.key)(&object), Arc::new(object));
            }
            Feed::Deleted(object) => {
                self.rows.write().remove(&(self.key)(&object));
            }
            Feed::Failed(_) => self.state.send_modify(|state| state.has_failed = true),
        }
    }

    fn replace(&self, objects: Vec<V>) {
        let rows = objects.into_iter().map(|object| ((self.key)(&object), Arc::new(object))).collect();
        *self.rows.write() = rows;
    }
}

/// Applies the events of a watch to the set until cancelled. `kind` is the kind of the objects.
pub async fn watch_set<V: Clone + PartialEq>(
    set: Arc<WatchedSet<V>>,
    kind: &'static str,
    mut feed: FeedStream<V>,
    cancel: CancellationToken,
) {
    let mut failures = WatchFailures::new(kind);
    while let Some(Some(item)) = cancel.run_until_cancelled(feed.next()).await {
        failures.log(&item);
        set.apply(item);
    }
}

/// Logs the failures of a watch. A request that the server rejects, for example because a permission is missing, is
/// a warning once, until the watch succeeds; failures of the connection are reported elsewhere.
pub(crate) struct WatchFailures {
    kind: &'static str,
    has_warned: bool,
}

impl WatchFailures {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, has_warned: false }
    }

    pub(crate) fn log<V>(&mut self, item: &Feed<V>) {
        let kind = self.kind;
        match item {
            Feed::Failed(error) if self.is_news(error) => {
                tracing::warn!(kind, %error, "API server rejected watch, retrying");
            }
            Feed::Failed(error) => tracing::debug!(kind, %error, "watch failed, retrying"),
            Feed::Listed(_) | Feed::Applied(_) | Feed::Deleted(_) => self.has_warned = false,
        }
    }

    fn is_news(&mut self, error: &ApiError) -> bool {
        let is_expected = error.is_transient() || error.kind == ApiErrorKind::Gone;
        !is_expected && !std::mem::replace(&mut self.has_warned, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn applies_watch_events_and_ignores_seed_after_list() {
        let set = WatchedSet::new(|text: &String| text.chars().take(1).collect());
        assert!(!set.wait_until_read(SECOND).await);
        let text = |text: &str| text.to_owned();
        set.apply(Feed::Listed(vec![text("a1"), text("b1")]));
        assert!(set.wait_until_read(SECOND).await);
        set.apply(Feed::Applied(text("a2")));
        set.apply(Feed::Deleted(text("b1")));
        set.apply(Feed::Applied(text("c1")));
        assert_eq!(set.export(), ["a2", "c1"]);
        assert_eq!(set.get("a").as_deref(), Some(&text("a2")));
        set.seed(vec![text("z")]);
        assert_eq!(set.export(), ["a2", "c1"], "the set was already listed");
    }

    #[test]
    fn rejected_watch_is_news_until_it_succeeds() {
        let error = |kind| ApiError { kind, message: String::new(), retry_after: None };
        let mut failures = WatchFailures::new("Service");
        assert!(!failures.is_news(&error(ApiErrorKind::Unreachable)));
        assert!(!failures.is_news(&error(ApiErrorKind::Gone)));
        assert!(failures.is_news(&error(ApiErrorKind::Forbidden)));
        assert!(!failures.is_news(&error(ApiErrorKind::Forbidden)));
        failures.log(&Feed::Listed(vec![()]));
        assert!(failures.is_news(&error(ApiErrorKind::Forbidden)));
    }

    #[tokio::test(start_paused = true)]
    async fn uses_seed_only_while_server_is_unreachable() {
        let set = WatchedSet::new(String::clone);
        set.seed(vec!["a".to_owned()]);
        assert!(!set.wait_until_read(SECOND).await, "no request has failed yet");
        let error = ApiError { kind: ApiErrorKind::Unreachable, message: String::new(), retry_after: None };
        set.apply(Feed::Failed(error));
        assert!(set.wait_until_read(SECOND).await);
        assert_eq!(set.export(), ["a"]);
        set.apply(Feed::Listed(Vec::new()));
        assert!(set.export().is_empty());
    }
}
