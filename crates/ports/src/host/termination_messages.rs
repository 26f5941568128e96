//! Termination messages of containers.

use std::path::Path;

use async_trait::async_trait;
use model::PodUid;

use crate::host::pod_folders::FileError;

/// Reads the last bytes of files that containers wrote. A container may have replaced the file: only regular files are read,
/// symlinks are not followed, and no call blocks on a special file.
#[async_trait]
pub trait TerminationMessages: Send + Sync {
    /// The last `limit` bytes of a file below `pods/<uid>/containers`; `None` when it is missing. Other paths are
    /// rejected.
    async fn message_file(&self, uid: &PodUid, path: &Path, limit: u64)
    -> Result<Option<Vec<u8>>, FileError>;

    /// The last `limit` bytes of a log below the log folder; `None` when it is missing. Other paths are rejected.
    async fn log_end(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FileError>;
}
