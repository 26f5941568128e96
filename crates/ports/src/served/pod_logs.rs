//! The logs of containers on disk.

use std::path::Path;

use async_trait::async_trait;
pub use model::LogFolder;

use crate::host::pod_folders::FileError;

/// Creates, links and removes log files and their folders. Every call is idempotent.
#[async_trait]
pub trait PodLogs: Send + Sync {
    /// Creates the log folder of a container, mode 0755.
    async fn make_log_folder(&self, folder: &LogFolder, container: &str) -> Result<(), FileError>;

    /// The highest `<n>` of `<n>.log` in the log folder of a container.
    async fn highest_log_number(&self, folder: &LogFolder, container: &str)
    -> Result<Option<u32>, FileError>;

    /// Points `/var/log/containers/<link>` at a log file.
    async fn link_container_log(&self, link: &str, target: &Path) -> Result<(), FileError>;

    /// Removes one log with its rotated files and the link `/var/log/containers/<link>`; missing files are not
    /// a failure. A path outside the log folder is rejected.
    async fn remove_log(&self, log: &Path, link: &str) -> Result<(), FileError>;

    /// All pod log folders.
    async fn list_log_folders(&self) -> Result<Vec<LogFolder>, FileError>;

    /// Removes a pod's log folder.
    async fn remove_log_folder(&self, folder: &LogFolder) -> Result<(), FileError>;

    /// Removes the links of `/var/log/containers` whose log files below our log folder no longer exist.
    async fn remove_dead_log_links(&self) -> Result<(), FileError>;
}
