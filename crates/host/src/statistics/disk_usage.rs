//! Sizes of file systems, and disk use of folders.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::usage::{DiskUse, FilesystemRoom, TreeUse};
use ports::host::usage::DiskUsage;
use timing::KeyedLock;

use crate::hanging_io::run_may_hang;
use crate::mount_table;
use crate::statistics::tree_walk::tree_use;
use crate::statistics::usage::room;

/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;
/// How long an inspection waits for another one of the same path.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// [`DiskUsage`] of this machine.
#[derive(Clone, Debug, Default)]
pub struct HostDiskUsage {
    /// Paths that are being inspected. While an inspection hangs, no second one of the same path is started.
    locks: KeyedLock<PathBuf>,
}

impl HostDiskUsage {
    /// Runs `inspect` on a path; `None` if another inspection of the path does not finish soon.
    async fn inspect<T: Send + 'static>(
        &self,
        path: PathBuf,
        inspect: impl FnOnce(&Path) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let guard = self.locks.acquire(&path, LOCK_TIMEOUT).await?;
        let work = move || {
            let _guard = guard;
            inspect(&path)
        };
        run_may_hang(work).await.ok().flatten()
    }
}

#[async_trait]
impl DiskUsage for HostDiskUsage {
    async fn rooms(&self, paths: Vec<PathBuf>) -> Vec<Option<FilesystemRoom>> {
        let mut rooms = Vec::with_capacity(paths.len());
        for path in paths {
            rooms.push(self.inspect(path, room).await);
        }
        rooms
    }

    async fn devices(&self, paths: Vec<PathBuf>) -> Vec<Option<String>> {
        let mut devices = Vec::with_capacity(paths.len());
        for path in paths {
            devices.push(self.inspect(path, device).await);
        }
        devices
    }

    async fn device_size(&self, path: &Path) -> Option<u64> {
        self.inspect(path.to_path_buf(), device_size).await
    }

    async fn tree(&self, path: &Path, limit: Duration) -> Option<TreeUse> {
        self.inspect(path.to_path_buf(), move |path| tree_use(path, Instant::now() + limit)).await
    }

    async fn files_in(&self, folders: Vec<PathBuf>) -> Vec<Option<DiskUse>> {
        let work = move || folders.iter().map(|folder| files_in(folder)).collect();
        // A panicked thread stops the agent anyway.
        tokio::task::spawn_blocking(work).await.unwrap_or_default()
    }
}

/// Uses the mount table, because subvolumes of one btrfs have different device numbers.
fn device(path: &Path) -> Option<String> {
    let path = std::fs::canonicalize(path).ok()?;
    mount_table::containing(&mount_table::table().ok()?, &path).map(|mount| mount.device.clone())
}

/// The end position of a device is its size.
fn device_size(path: &Path) -> Option<u64> {
    // Opening a FIFO would block without O_NONBLOCK.
    let mut device = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    device.seek(SeekFrom::End(0)).ok()
}

fn files_in(folder: &Path) -> Option<DiskUse> {
    let top = std::fs::symlink_metadata(folder).ok()?;
    if !top.is_dir() {
        return Some(disk_use(&top));
    }
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok()).filter(|found| !found.is_dir());
    Some(files.fold(DiskUse::default(), |sum, found| sum + disk_use(&found)))
}

fn disk_use(found: &std::fs::Metadata) -> DiskUse {
    DiskUse { bytes: found.blocks().saturating_mul(BLOCK_BYTES), inodes: 1 }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn counts_only_files_directly_in_a_folder() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("below")).unwrap();
        fs::write(scratch.path().join("below/x"), "x").unwrap();
        fs::write(scratch.path().join("0.log"), "text").unwrap();
        let folders = vec![scratch.path().to_path_buf(), scratch.path().join("missing")];
        let found = HostDiskUsage::default().files_in(folders).await;
        assert_eq!(found[0].unwrap().inodes, 1);
        assert_eq!(found[1], None);
    }

    #[tokio::test]
    async fn device_size_is_its_end_position() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("device"), vec![1; 4096]).unwrap();
        assert_eq!(HostDiskUsage::default().device_size(&scratch.path().join("device")).await, Some(4096));
        assert_eq!(HostDiskUsage::default().device_size(&scratch.path().join("missing")).await, None);
    }

    #[tokio::test]
    async fn hanging_path_is_not_inspected_twice() {
        let scratch = tempfile::tempdir().unwrap();
        let disks = HostDiskUsage::default();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let hanging = disks.inspect(scratch.path().to_path_buf(), move |_| released.recv().ok());
        let mut hanging = std::pin::pin!(hanging);
        assert!(futures::poll!(hanging.as_mut()).is_pending());
        assert_eq!(disks.rooms(vec![scratch.path().into()]).await, [None]);
        assert!(disks.rooms(vec!["/".into()]).await[0].is_some());
        drop(release);
        assert_eq!(hanging.await, None);
        assert!(disks.rooms(vec![scratch.path().into()]).await[0].is_some());
    }

    #[tokio::test]
    async fn paths_on_one_file_system_have_the_same_device() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("in")).unwrap();
        let paths =
            vec![scratch.path().into(), scratch.path().join("in"), "/proc".into(), "/nowhere/at/all".into()];
        let found = HostDiskUsage::default().devices(paths).await;
        assert!(found[0].is_some() && found[0] == found[1] && found[2].is_some() && found[0] != found[2]);
        assert_eq!(found[3], None);
    }

    #[tokio::test]
    async fn returns_size_and_free_space_of_a_file_system() {
        let rooms = HostDiskUsage::default().rooms(vec!["/".into(), "/nowhere/at/all".into()]).await;
        let room = rooms[0].unwrap();
        assert!(room.capacity > room.available && room.used > 0 && room.inodes > room.inodes_free);
        assert_eq!(rooms[1], None);
    }
}
