//! What containers left to say when they ended.

use std::path::Path;

use async_trait::async_trait;
use model::PodUid;

use crate::pod_folders::FileError;

/// Reads the ends of files that containers wrote to. Containers may have put anything in their place: nothing but
/// regular files is read, no symlink is followed, and no call blocks on what a container did.
#[async_trait]
pub trait TerminationMessages: Send + Sync {
    /// The last `limit` bytes of a file below `pods/<uid>/containers`; `None` when it is missing. Any other place is
    /// refused.
    async fn message_file(&self, uid: &PodUid, path: &Path, limit: u64)
    -> Result<Option<Vec<u8>>, FileError>;

    /// The last `limit` bytes of a log below the log folder; `None` when it is missing. Any other place is refused.
    async fn log_end(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FileError>;
}
