//! Files that containers' variables come from.

use std::path::Path;

use async_trait::async_trait;

use crate::pod_folders::FileError;

/// Reads files that containers wrote.
#[async_trait]
pub trait EnvFiles: Send + Sync {
    /// The content of a file below a volume's folder. Nothing outside the folder is reached: symlinks and `..` are
    /// followed as if the folder were the root. What is no regular file, or larger than anybody's environment, is
    /// refused.
    async fn read(&self, volume: &Path, path: &Path) -> Result<Vec<u8>, FileError>;
}
