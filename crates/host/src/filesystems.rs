//! Room on disks, by `statvfs`.

use std::path::Path;

use async_trait::async_trait;
use ports::filesystems::{DiskSpace, Filesystems};
use ports::pod_folders::FileError;

use crate::failure::{OnPath, blocking};

/// Asks the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostFilesystems;

#[async_trait]
impl Filesystems for HostFilesystems {
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError> {
        let subject = path.to_path_buf();
        blocking(path, move || {
            let stat =
                rustix::fs::statvfs(&subject).on_path("read the size of the filesystem at", subject)?;
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
    async fn a_filesystem_has_a_size_and_no_more_room_than_that() {
        let space = HostFilesystems.space(Path::new("/")).await.unwrap();
        assert!(space.capacity > 0 && space.available <= space.capacity, "{space:?}");
        assert!(HostFilesystems.space(Path::new("/nowhere/at/all")).await.is_err());
    }
}
