//! Atomic, durable replacement of files that contain secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode of certificate folders, same as upstream.
const FOLDER_MODE: u32 = 0o755;

#[derive(Debug, thiserror::Error)]
#[error("write {}", path.display())]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

impl WriteError {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self { path: path.to_owned(), source }
    }
}

/// Atomically replaces the content of a file and syncs it to disk. Creates missing parent folders.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), WriteError> {
    let temporary = with_suffix(path, ".podward-new");
    let write = || {
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(content)?;
        // Overrides the umask of the process.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_parent_folder(path)
    };
    write().map_err(WriteError::at(path))
}

pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

/// Syncs the parent folder of `path`, so that a rename survives a crash.
pub(super) fn sync_parent_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_content_and_mode() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a/b/file");
        for content in ["one", "two, longer"] {
            replace(&path, content.as_bytes(), 0o600).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
