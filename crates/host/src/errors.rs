//! Errors that name the operation and the path, and file work on blocking threads.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ports::host::pod_folders::FileError;

/// Converts a failed system call to a [`FileError`].
pub(crate) trait OnPath<T> {
    fn on_path(self, operation: &'static str, path: impl Into<PathBuf>) -> Result<T, FileError>;
}

impl<T, E: Into<io::Error>> OnPath<T> for Result<T, E> {
    fn on_path(self, operation: &'static str, path: impl Into<PathBuf>) -> Result<T, FileError> {
        self.map_err(|error| FileError { operation, path: path.into(), source: error.into() })
    }
}

/// Tells missing files from failures.
pub(crate) trait IfExists<T> {
    /// `None` if the file or folder does not exist.
    fn if_exists(self) -> io::Result<Option<T>>;
}

impl<T, E: Into<io::Error>> IfExists<T> for Result<T, E> {
    fn if_exists(self) -> io::Result<Option<T>> {
        match self.map_err(Into::into) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            result => result.map(Some),
        }
    }
}

pub(crate) fn invalid_input(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// Reads everything; fails if it is longer than `limit` bytes.
pub(crate) fn read_at_most(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("larger than {} MiB", limit >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Checks that untrusted text is the name of one folder entry, without a path separator.
pub(crate) fn entry_name(text: &str) -> Result<&Path, FileError> {
    let unsafe_name = text.is_empty() || text == "." || text == ".." || text.contains(['/', '\0']);
    if unsafe_name {
        return Err(invalid_input("not a plain file name")).on_path("use as a file name", text);
    }
    Ok(Path::new(text))
}

/// Runs file work on a blocking thread; a panic of that thread is reported as an error about `subject`.
pub(crate) async fn blocking<T: Send + 'static>(
    subject: &Path,
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(panicked) => Err(io::Error::other(panicked)).on_path("run file work on", subject),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_names_that_leave_their_folder() {
        for bad in ["", ".", "..", "a/b", "/", "a\0b"] {
            assert!(entry_name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "..data", "a b", "kubernetes.io~empty-dir"] {
            assert_eq!(entry_name(good).unwrap(), Path::new(good));
        }
    }
}
