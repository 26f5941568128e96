//! Files with environment variables of containers.

use std::path::Path;

use async_trait::async_trait;

use crate::host::pod_folders::FileError;

/// Reads files that init containers wrote.
#[async_trait]
pub trait EnvFiles: Send + Sync {
    /// Reads a file below a volume's folder. Symlinks and `..` are resolved as if the folder were the root. Anything that is
    /// not a regular file, or is too large, is rejected.
    async fn read(&self, volume: &Path, path: &Path) -> Result<Vec<u8>, FileError>;
}
