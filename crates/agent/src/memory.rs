//! What the API server said last, for a start without it.
//!
//! Each stage that follows the API server keeps its set under a name of its own. A set that is missing, of another
//! version or unreadable counts as never kept: the agent then waits for the API server, as upstream does.

use std::sync::Arc;

use model::Timestamp;
use ports::checkpoints::Checkpoints;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

/// The node's memory of the API server.
#[derive(Clone)]
pub struct Memory {
    store: Option<Arc<dyn Checkpoints>>,
}

/// A set with the time it was last known to be true.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept<T> {
    version: u32,
    /// When the API server last confirmed it, in nanoseconds since 1970.
    confirmed_at: i64,
    /// The set.
    pub content: T,
}

impl<T> Kept<T> {
    /// When the API server last confirmed it.
    #[must_use]
    pub fn confirmed_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.confirmed_at)
    }
}

impl Memory {
    /// Keeps sets in a store, which should be a sealed one.
    #[must_use]
    pub fn new(store: Arc<dyn Checkpoints>) -> Self {
        Self { store: Some(store) }
    }

    /// Keeps nothing.
    #[must_use]
    pub fn off() -> Self {
        Self { store: None }
    }

    /// The set kept under a name.
    pub async fn recall<T: DeserializeOwned>(&self, name: &'static str) -> Option<Kept<T>> {
        let content = match self.store.as_ref()?.load(name).await {
            Ok(content) => content?,
            Err(error) => {
                tracing::warn!(name, %error, source = %error.source, "what was remembered cannot be read; waiting for the API server");
                return None;
            }
        };
        match serde_json::from_slice::<Kept<T>>(&content) {
            Ok(kept) if kept.version == VERSION => Some(kept),
            Ok(kept) => {
                tracing::warn!(name, version = kept.version, "what was remembered is of another version");
                None
            }
            // The error's text may quote a secret.
            Err(error) => {
                tracing::warn!(
                    name,
                    line = error.line(),
                    column = error.column(),
                    "what was remembered cannot be understood"
                );
                None
            }
        }
    }

    /// Keeps a set that the API server confirmed at that time. A set that cannot be kept is logged: what runs goes on.
    pub async fn keep<T: Serialize>(&self, name: &'static str, content: &T, confirmed_at: Timestamp) {
        let Some(store) = &self.store else { return };
        let kept = Kept { version: VERSION, confirmed_at: confirmed_at.as_nanos(), content };
        let written = match serde_json::to_vec(&kept) {
            Ok(written) => written,
            Err(error) => {
                tracing::error!(name, %error, "what the API server said cannot be written as JSON");
                return;
            }
        };
        if let Err(error) = store.save_unflushed(name, written).await {
            tracing::error!(name, %error, source = %error.source, "what the API server said cannot be kept; a start without it will not know this");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_checkpoints::Files;

    #[tokio::test]
    async fn a_set_comes_back_with_its_time() {
        let memory = Memory::new(Arc::new(Files::default()));
        assert!(memory.recall::<Vec<u8>>("pods").await.is_none());
        memory.keep("pods", &vec![1, 2], Timestamp::from_secs(7)).await;
        let kept = memory.recall::<Vec<u8>>("pods").await.unwrap();
        assert_eq!((kept.confirmed_at(), kept.content), (Timestamp::from_secs(7), vec![1, 2]));
        // Of another shape or version: as if there were none.
        assert!(memory.recall::<String>("pods").await.is_none());
        let files = Files::default();
        files.save("pods", br#"{"version":9,"confirmed_at":1,"content":[1]}"#.to_vec()).await.unwrap();
        assert!(Memory::new(Arc::new(files)).recall::<Vec<u8>>("pods").await.is_none());
    }

    #[tokio::test]
    async fn memory_that_is_off_keeps_nothing() {
        let memory = Memory::off();
        memory.keep("pods", &1, Timestamp::from_secs(7)).await;
        assert!(memory.recall::<u8>("pods").await.is_none());
    }
}
