//! Errors that name the operation and the path.

use std::io;
use std::path::{Path, PathBuf};

use ports::pod_folders::FileError;

/// Turns a failed system call into a [`FileError`].
pub(crate) trait OnPath<T> {
    /// Names what was tried and on what.
    fn on_path(self, operation: &'static str, path: impl Into<PathBuf>) -> Result<T, FileError>;
}

impl<T, E: Into<io::Error>> OnPath<T> for Result<T, E> {
    fn on_path(self, operation: &'static str, path: impl Into<PathBuf>) -> Result<T, FileError> {
        self.map_err(|error| FileError { operation, path: path.into(), source: error.into() })
    }
}

/// Input that would lead to a path it must not name.
pub(crate) fn refused(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// One name of a folder entry, from text that others chose.
pub(crate) fn entry_name(text: &str) -> Result<&Path, FileError> {
    let unsafe_name = text.is_empty() || text == "." || text == ".." || text.contains(['/', '\0']);
    if unsafe_name {
        return Err(refused("not a plain file name")).on_path("use as a file name", text);
    }
    Ok(Path::new(text))
}

/// Runs file work on a blocking thread; `subject` is named if the thread is lost.
pub(crate) async fn blocking<T: Send + 'static>(
    subject: &Path,
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(lost) => Err(io::Error::other(lost)).on_path("run file work on", subject),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_names_that_leave_their_folder() {
        for bad in ["", ".", "..", "a/b", "/", "a\0b"] {
            assert!(entry_name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "..data", "a b", "kubernetes.io~empty-dir"] {
            assert_eq!(entry_name(good).unwrap(), Path::new(good));
        }
    }
}
