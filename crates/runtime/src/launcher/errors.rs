//! Why a process could not be started.

use std::path::Path;

use rustix::io::Errno;
use thiserror::Error;

/// An error of the set-up, which fails the container.
#[derive(Debug, Error)]
pub enum LaunchError {
    #[error("{operation} {subject}: {source}")]
    Os { operation: &'static str, subject: String, source: Errno },
    #[error("mount destination {path:?} is not allowed: {reason}")]
    Destination { path: String, reason: &'static str },
    #[error("bind source {path:?} is not on a {required} mount")]
    Propagation { path: String, required: &'static str },
    #[error("the file system of {0:?} does not support mapped owners, which a user namespace needs")]
    NoMappedOwners(String),
    #[error("id {uid}:{gid} is not mapped in the user namespace")]
    UnmappedUser { uid: u32, gid: u32 },
    #[error("{0} contains a zero byte")]
    ZeroByte(&'static str),
    #[error("working directory {0:?} is outside the container's root")]
    DirectoryOutside(String),
    #[error("{0}")]
    Executable(String),
    #[error("{0}")]
    Child(String),
    #[error("the container is not running")]
    NotRunning,
    #[error("the process ended during its set-up")]
    Ended,
    #[error("the process that starts containers has {0} threads, and must have one")]
    Threads(usize),
    #[error("message of the launcher: {0}")]
    Message(String),
}

/// Names the operation and its subject in an error of a system call.
pub(super) trait During<T> {
    fn during(self, operation: &'static str, subject: impl AsRef<Path>) -> Result<T, LaunchError>;
}

impl<T> During<T> for rustix::io::Result<T> {
    fn during(self, operation: &'static str, subject: impl AsRef<Path>) -> Result<T, LaunchError> {
        let subject = || subject.as_ref().display().to_string();
        self.map_err(|source| LaunchError::Os { operation, subject: subject(), source })
    }
}
