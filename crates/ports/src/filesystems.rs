//! Room on disks.

use std::path::Path;

use async_trait::async_trait;

use crate::pod_folders::FileError;

/// Size of a filesystem and what is left of it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// Whole size.
    pub capacity: u64,
    /// What processes without privileges may still use.
    pub available: u64,
}

/// Tells how full filesystems are.
#[async_trait]
pub trait Filesystems: Send + Sync {
    /// The filesystem that holds a path.
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError>;
}
