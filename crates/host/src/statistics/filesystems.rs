//! Size and free space of file systems.

use std::path::Path;

use async_trait::async_trait;
use ports::host::filesystems::{DiskSpace, Filesystems};
use ports::host::pod_folders::FileError;

use crate::errors::{OnPath, blocking};

/// [`Filesystems`] through `statvfs`.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostFilesystems;

#[async_trait]
impl Filesystems for HostFilesystems {
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError> {
        let subject = path.to_path_buf();
        blocking(path, move || {
            let stat = rustix::fs::statvfs(&subject).on_path("read size of the file system at", subject)?;
            let unit = if stat.f_frsize == 0 { stat.f_bsize } else { stat.f_frsize };
            Ok(DiskSpace {
                capacity: stat.f_blocks.saturating_mul(unit),
                available: stat.f_bavail.saturating_mul(unit),
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn free_space_does_not_exceed_capacity() {
        let space = HostFilesystems.space(Path::new("/")).await.unwrap();
        assert!(space.capacity > 0 && space.available <= space.capacity, "{space:?}");
        assert!(HostFilesystems.space(Path::new("/nowhere/at/all")).await.is_err());
    }
}
