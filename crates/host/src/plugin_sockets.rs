//! Sockets of plugins below `plugins_registry`.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use ports::plugin_registry::{PluginFolder, PluginSocket, PluginSockets};
use ports::pod_folders::FileError;

use crate::failure::{OnPath, blocking};
use crate::folder::Folder;
use crate::pod_folders::PRIVATE;

/// Folders nested deeper are left out: nobody puts sockets there on purpose.
const DEEPEST: usize = 8;

/// [`PluginSockets`] below one folder.
#[derive(Clone, Debug)]
pub struct HostPluginSockets {
    folder: PathBuf,
}

impl HostPluginSockets {
    /// `root` is such as `/var/lib/kubelet`.
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
            Folder::make(&folder, PRIVATE)?;
            let mut found = PluginFolder::default();
            gather(&folder, DEEPEST, &mut found).on_path("list plugins of", &folder)?;
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

fn gather(folder: &Path, deeper: usize, found: &mut PluginFolder) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // Gone meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if metadata.is_dir() && deeper > 0 {
            found.folders.push(entry.path());
            gather(&entry.path(), deeper - 1, found)?;
        } else if metadata.file_type().is_socket() {
            // Not its last change: plugins set the mode after they bind.
            let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let born = born.and_then(|age| i64::try_from(age.as_nanos()).ok()).unwrap_or_default();
            let identity = (metadata.dev(), metadata.ino(), born);
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
    async fn finds_sockets_at_any_depth_and_tells_new_ones_from_old() {
        let scratch = tempfile::tempdir().unwrap();
        let sockets = HostPluginSockets::new(scratch.path());
        assert_eq!(sockets.list().await.unwrap(), PluginFolder::default());
        let folder = sockets.folder().to_path_buf();
        fs::create_dir_all(folder.join("sub/deep")).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        let mut kept = Vec::new();
        for name in ["a.sock", "sub/deep/b.sock", ".hidden.sock"] {
            kept.push(UnixListener::bind(folder.join(name)).unwrap());
        }
        let found = sockets.list().await.unwrap();
        assert_eq!(found.folders, [folder.join("sub"), folder.join("sub/deep")]);
        let paths: Vec<_> = found.sockets.iter().map(|socket| socket.path.clone()).collect();
        assert_eq!(paths, [folder.join("a.sock"), folder.join("sub/deep/b.sock")]);
        assert_eq!(sockets.list().await.unwrap(), found);
        fs::remove_file(folder.join("a.sock")).unwrap();
        kept.push(UnixListener::bind(folder.join("a.sock")).unwrap());
        let again = sockets.list().await.unwrap();
        assert_ne!(again.sockets[0].identity, found.sockets[0].identity);
    }
}
