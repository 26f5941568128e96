//! A temporary folder for tests that mount file systems.

use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

use crate::mount_table;

/// A folder that is unmounted and removed at the end of a test, even if it fails.
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        Self { folder, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file below the folder, creating parent folders.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mounts = mount_table::table().unwrap_or_default();
        for mount in mount_table::at_or_below(&mounts, self.folder.path()).iter().rev() {
            let _ = rustix::mount::unmount(&mount.mount_point, UnmountFlags::DETACH);
        }
    }
}

/// Fails a test that needs root.
pub(crate) fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test mounts or makes cgroups: run it as root");
}
