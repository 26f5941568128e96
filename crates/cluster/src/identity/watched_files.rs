//! Values loaded from files and reloaded on use if the files have changed, so that an idle node does no work.

use parking_lot::Mutex;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum time between two checks for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Device, inode, size and modification time: detects a change without reading the file.
type FileStamp = Option<(u64, u64, u64, i64, i64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    OnChange,
    Never,
}

/// A value loaded from files. If a changed file is invalid, the last valid value stays in force.
pub(super) struct WatchedFiles<T, E> {
    paths: Vec<PathBuf>,
    reload: Reload,
    load: Load<T, E>,
    state: Mutex<State<T>>,
}

type Load<T, E> = Box<dyn Fn(&[PathBuf]) -> Result<T, E> + Send + Sync>;

struct State<T> {
    value: Arc<T>,
    stamps: Vec<FileStamp>,
    checked_at: Instant,
}

impl<T, E: fmt::Display> WatchedFiles<T, E> {
    /// # Errors
    /// If the first load fails.
    pub(super) fn new(
        paths: Vec<PathBuf>,
        reload: Reload,
        load: impl Fn(&[PathBuf]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let stamps = stamps(&paths);
        let value = Arc::new(load(&paths)?);
        let state = Mutex::new(State { value, stamps, checked_at: Instant::now() });
        Ok(Self { paths, reload, load: Box::new(load), state })
    }

    /// Returns a value that is at most one second old.
    pub(super) fn current(&self) -> Arc<T> {
        self.as_of(Instant::now())
    }

    fn as_of(&self, now: Instant) -> Arc<T> {
        let mut state = self.state.lock();
        if self.reload == Reload::Never || now.saturating_duration_since(state.checked_at) < CHECK_INTERVAL {
            return state.value.clone();
        }
        state.checked_at = now;
        let found = stamps(&self.paths);
        if found != state.stamps {
            state.stamps = found;
            match (self.load)(&self.paths) {
                Ok(value) => {
                    tracing::info!(files = ?self.paths, "reloaded changed files");
                    state.value = Arc::new(value);
                }
                Err(error) => {
                    tracing::warn!(files = ?self.paths, %error, "failed to reload changed files; keeping the previous value");
                }
            }
        }
        state.value.clone()
    }
}

impl<T, E> fmt::Debug for WatchedFiles<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedFiles").field("paths", &self.paths).finish_non_exhaustive()
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<FileStamp> {
    let stamp = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    };
    paths.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reloads_valid_changes_and_ignores_invalid_ones() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("number");
        let start = Instant::now();
        std::fs::write(&path, "1").unwrap();
        let files = WatchedFiles::new(vec![path.clone()], Reload::OnChange, |paths| {
            std::fs::read_to_string(&paths[0])
                .map_err(|error| error.to_string())?
                .parse::<u32>()
                .map_err(|error| error.to_string())
        })
        .unwrap();
        let value_at = |seconds| *files.as_of(start + Duration::from_secs(seconds));
        std::fs::write(&path, "22").unwrap();
        assert_eq!(value_at(0), 1, "within the period");
        assert_eq!(value_at(2), 22);
        std::fs::write(&path, "not a number").unwrap();
        assert_eq!(value_at(4), 22);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(value_at(6), 22);
        std::fs::write(&path, "333").unwrap();
        assert_eq!(value_at(8), 333);
    }
}
