//! Finds plugin sockets below `plugins_registry`.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use ports::host::pod_folders::FileError;
use ports::plugins::plugin_registry::{PluginFolder, PluginSocket, PluginSockets};

use crate::errors::{IfExists, OnPath, blocking};
use crate::files::folder::Folder;
use crate::pods::pod_folders::PRIVATE_MODE;

/// Folders nested deeper are ignored.
const MAX_DEPTH: usize = 8;

/// [`PluginSockets`] below one folder.
#[derive(Clone, Debug)]
pub struct HostPluginSockets {
    folder: PathBuf,
}

impl HostPluginSockets {
    /// `root` is the kubelet's root folder, such as `/var/lib/kubelet`.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { folder: root.join("plugins_registry") }
    }
}

#[async_trait]
impl PluginSockets for HostPluginSockets {
    async fn list(&self) -> Result<PluginFolder, FileError> {
        let folder = self.folder.clone();
        blocking(&self.folder, move || {
            Folder::make(&folder, PRIVATE_MODE)?;
            let mut found = PluginFolder::default();
            collect(&folder, MAX_DEPTH, &mut found).on_path("list plugins of", &folder)?;
            found.sockets.sort();
            found.folders.sort();
            Ok(found)
        })
        .await
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

fn collect(folder: &Path, depth_left: usize, found: &mut PluginFolder) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        // It may have been removed meanwhile.
        let Some(metadata) = entry.metadata().if_exists()? else { continue };
        if metadata.is_dir() && depth_left > 0 {
            found.folders.push(entry.path());
            collect(&entry.path(), depth_left - 1, found)?;
        } else if metadata.file_type().is_socket() {
            // Not the modification time: plugins change the mode after they bind.
            let created = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let created = created.and_then(|age| i64::try_from(age.as_nanos()).ok()).unwrap_or_default();
            let identity = (metadata.dev(), metadata.ino(), created);
            found.sockets.push(PluginSocket { path: entry.path(), identity });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn finds_nested_sockets_and_detects_replaced_ones() {
        let scratch = tempfile::tempdir().unwrap();
        let sockets = HostPluginSockets::new(scratch.path());
        assert_eq!(sockets.list().await.unwrap(), PluginFolder::default());
        let folder = sockets.folder().to_path_buf();
        fs::create_dir_all(folder.join("sub/deep")).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        let mut listeners = Vec::new();
        for name in ["a.sock", "sub/deep/b.sock", ".hidden.sock"] {
            listeners.push(UnixListener::bind(folder.join(name)).unwrap());
        }
        let found = sockets.list().await.unwrap();
        assert_eq!(found.folders, [folder.join("sub"), folder.join("sub/deep")]);
        let paths: Vec<_> = found.sockets.iter().map(|socket| socket.path.clone()).collect();
        assert_eq!(paths, [folder.join("a.sock"), folder.join("sub/deep/b.sock")]);
        assert_eq!(sockets.list().await.unwrap(), found);
        fs::remove_file(folder.join("a.sock")).unwrap();
        listeners.push(UnixListener::bind(folder.join("a.sock")).unwrap());
        let updated = sockets.list().await.unwrap();
        assert_ne!(updated.sockets[0].identity, found.sockets[0].identity);
    }
}
