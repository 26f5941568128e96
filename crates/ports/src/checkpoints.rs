//! Small state that outlives the agent.

use async_trait::async_trait;

use crate::pod_folders::FileError;

/// Keeps named blobs. A save is atomic: after a crash at any point the old or the new content is there.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// Replaces the content under a name.
    async fn save(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError>;

    /// The same for content that the sources tell again: it outlives the agent, but after a machine crash it may be
    /// corrupt or old. Cheap: a flush would hold up the runtime, which flushes to the same disk while pods start.
    async fn save_unflushed(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError>;

    /// The content under a name, `None` if there never was any.
    async fn load(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError>;
}
