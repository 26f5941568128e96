//! State on disk that survives a restart of the agent.

use async_trait::async_trait;

use crate::host::pod_folders::FileError;

/// Stores named blobs. A save is atomic: after a crash at any point, the old or the new content exists.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// Replaces the content under a name.
    async fn save(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError>;

    /// Saves content that the sources deliver again after a crash of the machine: it survives the agent, but not necessarily
    /// the machine. Cheap, because a flush would delay the runtime, which flushes to the same disk while pods start.
    async fn save_unflushed(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError>;

    /// The content under a name, `None` if there is none.
    async fn load(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError>;
}
