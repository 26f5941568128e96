//! Free space on filesystems.

use std::path::Path;

use async_trait::async_trait;

use crate::host::pod_folders::FileError;

/// Size and free space of a filesystem, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// Total size.
    pub capacity: u64,
    /// Space that unprivileged processes may still use.
    pub available: u64,
}

/// Reads the use of filesystems.
#[async_trait]
pub trait Filesystems: Send + Sync {
    /// The filesystem that holds a path.
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError>;
}
