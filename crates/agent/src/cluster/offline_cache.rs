//! Caches answers of the API server on disk, so that the agent can start while the server is unreachable.
//!
//! Each stage that watches the API server saves its set of objects under its own name. A set that is missing, unreadable
//! or of another version is ignored: the agent then waits for the API server, as upstream does.

use std::sync::Arc;

use model::Timestamp;
use ports::host::checkpoints::Checkpoints;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::state_format;

#[derive(Clone)]
pub struct OfflineCache {
    store: Option<Arc<dyn Checkpoints>>,
}

/// A set of objects as the API server last confirmed it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct CachedSet<T> {
    version: u32,
    /// Nanoseconds since 1970.
    confirmed_at: i64,
    pub content: T,
}

impl<T> CachedSet<T> {
    /// When the API server last confirmed the set.
    #[must_use]
    pub fn confirmed_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.confirmed_at)
    }
}

impl OfflineCache {
    /// The store should be encrypted, because the sets contain secrets.
    #[must_use]
    pub fn new(store: Arc<dyn Checkpoints>) -> Self {
        Self { store: Some(store) }
    }

    /// A cache that saves and loads nothing.
    #[must_use]
    pub fn disabled() -> Self {
        Self { store: None }
    }

    pub async fn load<T: DeserializeOwned>(&self, name: &'static str) -> Option<CachedSet<T>> {
        let content = match self.store.as_ref()?.load(name).await {
            Ok(content) => content?,
            Err(error) => {
                tracing::warn!(name, %error, source = %error.source, "failed to read offline cache, waiting for the API server");
                return None;
            }
        };
        match state_format::OFFLINE_CACHE.decode(&content) {
            Ok(set) => Some(set),
            Err(error) => {
                tracing::warn!(name, %error, "failed to decode offline cache, waiting for the API server");
                None
            }
        }
    }

    /// Saves a set that the API server confirmed at that time. A failure is only logged, because it does not affect the
    /// running pods.
    pub async fn save<T: Serialize>(&self, name: &'static str, content: &T, confirmed_at: Timestamp) {
        let Some(store) = &self.store else { return };
        let version = state_format::OFFLINE_CACHE.version();
        let set = CachedSet { version, confirmed_at: confirmed_at.as_nanos(), content };
        let json = match serde_json::to_vec(&set) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!(name, %error, "failed to serialize offline cache");
                return;
            }
        };
        if let Err(error) = store.save_unflushed(name, json).await {
            tracing::error!(name, %error, source = %error.source, "failed to write offline cache; a start without the API server will use older data");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_checkpoints::Files;

    #[tokio::test]
    async fn loads_saved_set_with_confirmation_time() {
        let cache = OfflineCache::new(Arc::new(Files::default()));
        assert!(cache.load::<Vec<u8>>("pods").await.is_none());
        cache.save("pods", &vec![1, 2], Timestamp::from_secs(7)).await;
        let set = cache.load::<Vec<u8>>("pods").await.unwrap();
        assert_eq!((set.confirmed_at(), set.content), (Timestamp::from_secs(7), vec![1, 2]));
        // A set of another type or version is ignored.
        assert!(cache.load::<String>("pods").await.is_none());
        let files = Files::default();
        files.save("pods", br#"{"version":9,"confirmed_at":1,"content":[1]}"#.to_vec()).await.unwrap();
        assert!(OfflineCache::new(Arc::new(files)).load::<Vec<u8>>("pods").await.is_none());
    }

    #[tokio::test]
    async fn disabled_cache_saves_nothing() {
        let cache = OfflineCache::disabled();
        cache.save("pods", &1, Timestamp::from_secs(7)).await;
        assert!(cache.load::<u8>("pods").await.is_none());
    }
}
