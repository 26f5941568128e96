//! Files that hold secrets.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Folders for certificates may be looked at by all, as upstream's.
const FOLDER_MODE: u32 = 0o755;

/// A file or folder that cannot be written.
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

/// Gives a file the content in one step, on disk when this returns. Makes the folder if need be.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), WriteError> {
    let temporary = with_suffix(path, ".podward-new");
    let write = || {
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(content)?;
        // The process may have a mask.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        flush_folder(path)
    };
    write().map_err(WriteError::at(path))
}

pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

/// Puts the name of a file on disk.
pub(super) fn flush_folder(path: &Path) -> io::Result<()> {
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
    fn replaces_content_and_mode_at_once() {
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
