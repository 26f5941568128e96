//! How full file systems are, and what folders take of them.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use model::usage::{DiskUse, FilesystemRoom};
use ports::usage::DiskUsage;

use crate::foreign_files::apart;
use crate::mount_table;
use crate::turns::Turns;
use crate::usage::room;

/// Bytes of a block in the kernel's counts.
const BLOCK: u64 = 512;
/// Entries between two looks at the clock.
const BETWEEN_LOOKS: u64 = 256;
/// How long a look waits for another one at the same path.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks the kernel.
#[derive(Clone, Debug, Default)]
pub struct HostDiskUsage {
    /// Paths that somebody looks at. A look that hangs is not made a second time.
    looks: Turns<PathBuf>,
}

impl HostDiskUsage {
    /// Looks at a path, unless somebody does and is not done soon.
    async fn look<T: Send + 'static>(
        &self,
        path: PathBuf,
        look: impl FnOnce(&Path) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let turn = self.looks.take(&path, PATIENCE).await?;
        let look = move || {
            let _turn = turn;
            look(&path)
        };
        apart(look).await.ok().flatten()
    }
}

#[async_trait]
impl DiskUsage for HostDiskUsage {
    async fn rooms(&self, paths: Vec<PathBuf>) -> Vec<Option<FilesystemRoom>> {
        let mut rooms = Vec::with_capacity(paths.len());
        for path in paths {
            rooms.push(self.look(path, room).await);
        }
        rooms
    }

    async fn devices(&self, paths: Vec<PathBuf>) -> Vec<Option<String>> {
        let mut devices = Vec::with_capacity(paths.len());
        for path in paths {
            devices.push(self.look(path, device).await);
        }
        devices
    }

    async fn device_size(&self, path: &Path) -> Option<u64> {
        self.look(path.to_path_buf(), device_size).await
    }

    async fn tree(&self, path: &Path, limit: Duration) -> Option<DiskUse> {
        self.look(path.to_path_buf(), move |path| Walk::new(path, limit)?.finish()).await
    }

    async fn files_in(&self, folders: Vec<PathBuf>) -> Vec<Option<DiskUse>> {
        let look = move || folders.iter().map(|folder| files_in(folder)).collect();
        // A lost thread means that the agent stops.
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
}

/// By the table of mounts: parts of one file system may have device numbers of their own (btrfs).
fn device(path: &Path) -> Option<String> {
    let path = std::fs::canonicalize(path).ok()?;
    mount_table::holding(&mount_table::table().ok()?, &path).map(|mount| mount.device.clone())
}

/// The end of a device is as far as one can go in it.
fn device_size(path: &Path) -> Option<u64> {
    // Nobody waits for the other end of a pipe.
    let mut device = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    device.seek(SeekFrom::End(0)).ok()
}

fn files_in(folder: &Path) -> Option<DiskUse> {
    let top = std::fs::symlink_metadata(folder).ok()?;
    if !top.is_dir() {
        return Some(used(&top));
    }
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok()).filter(|found| !found.is_dir());
    Some(files.fold(DiskUse::default(), |sum, found| sum + used(&found)))
}

fn used(found: &std::fs::Metadata) -> DiskUse {
    DiskUse { bytes: found.blocks().saturating_mul(BLOCK), inodes: 1 }
}

/// A way through a tree that stays on one file system and has an end.
struct Walk {
    device: u64,
    to_read: Vec<PathBuf>,
    /// Files with several names are counted once.
    linked: std::collections::HashSet<u64>,
    found: DiskUse,
    until: Instant,
}

impl Walk {
    fn new(path: &Path, limit: Duration) -> Option<Self> {
        let top = std::fs::symlink_metadata(path).ok()?;
        let to_read = if top.is_dir() { vec![path.to_path_buf()] } else { Vec::new() };
        Some(Self {
            device: top.dev(),
            to_read,
            linked: Default::default(),
            found: used(&top),
            until: Instant::now() + limit,
        })
    }

    /// `None` when the time is over first.
    fn finish(mut self) -> Option<DiskUse> {
        while let Some(folder) = self.to_read.pop() {
            // A folder may go meanwhile.
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(found) = entry.metadata() else { continue };
                if found.dev() != self.device {
                    continue;
                }
                if found.is_dir() {
                    self.to_read.push(entry.path());
                } else if found.nlink() > 1 && !self.linked.insert(found.ino()) {
                    continue;
                }
                self.found = self.found + used(&found);
                if self.found.inodes.is_multiple_of(BETWEEN_LOOKS) && Instant::now() > self.until {
                    return None;
                }
            }
        }
        Some(self.found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_tree_is_counted_without_following_links_and_names_of_one_file_once() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path();
        fs::create_dir(top.join("in")).unwrap();
        fs::write(top.join("in/a"), vec![1; 8192]).unwrap();
        fs::hard_link(top.join("in/a"), top.join("b")).unwrap();
        std::os::unix::fs::symlink("/", top.join("away")).unwrap();
        let blocks = |path: &str| fs::symlink_metadata(top.join(path)).unwrap().blocks() * BLOCK;
        let found = HostDiskUsage::default().tree(top, LIMIT).await.unwrap();
        let expected = ["", "in", "in/a", "away"].iter().map(|path| blocks(path)).sum();
        assert_eq!(found, DiskUse { bytes: expected, inodes: 4 });
        let one = HostDiskUsage::default().tree(&top.join("b"), LIMIT).await.unwrap();
        assert_eq!(one, DiskUse { bytes: blocks("b"), inodes: 1 });
        assert_eq!(HostDiskUsage::default().tree(&top.join("missing"), LIMIT).await, None);
    }

    #[tokio::test]
    async fn a_tree_that_takes_too_long_has_no_answer() {
        let scratch = tempfile::tempdir().unwrap();
        for number in 0..BETWEEN_LOOKS {
            fs::write(scratch.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(HostDiskUsage::default().tree(scratch.path(), Duration::ZERO).await, None);
        assert!(HostDiskUsage::default().tree(scratch.path(), LIMIT).await.is_some());
    }

    #[tokio::test]
    async fn files_directly_in_a_folder_are_counted_alone() {
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
    async fn a_device_ends_where_one_can_go_no_further() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("device"), vec![1; 4096]).unwrap();
        assert_eq!(HostDiskUsage::default().device_size(&scratch.path().join("device")).await, Some(4096));
        assert_eq!(HostDiskUsage::default().device_size(&scratch.path().join("missing")).await, None);
    }

    #[tokio::test]
    async fn a_path_that_hangs_is_left_to_the_first_look() {
        let scratch = tempfile::tempdir().unwrap();
        let disks = HostDiskUsage::default();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let hanging = disks.look(scratch.path().to_path_buf(), move |_| released.recv().ok());
        let mut hanging = std::pin::pin!(hanging);
        assert!(futures::poll!(hanging.as_mut()).is_pending());
        assert_eq!(disks.rooms(vec![scratch.path().into()]).await, [None]);
        assert!(disks.rooms(vec!["/".into()]).await[0].is_some());
        drop(release);
        assert_eq!(hanging.await, None);
        assert!(disks.rooms(vec![scratch.path().into()]).await[0].is_some());
    }

    #[tokio::test]
    async fn paths_on_one_file_system_have_one_device() {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("in")).unwrap();
        let paths =
            vec![scratch.path().into(), scratch.path().join("in"), "/proc".into(), "/nowhere/at/all".into()];
        let found = HostDiskUsage::default().devices(paths).await;
        assert!(found[0].is_some() && found[0] == found[1] && found[2].is_some() && found[0] != found[2]);
        assert_eq!(found[3], None);
    }

    #[tokio::test]
    async fn a_file_system_has_room() {
        let rooms = HostDiskUsage::default().rooms(vec!["/".into(), "/nowhere/at/all".into()]).await;
        let room = rooms[0].unwrap();
        assert!(room.capacity > room.available && room.used > 0 && room.inodes > room.inodes_free);
        assert_eq!(rooms[1], None);
    }
}
