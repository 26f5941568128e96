//! Files that are read again when they have changed, at the time they are needed: an idle node has nothing to do.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at the files.
const PERIOD: Duration = Duration::from_secs(1);

/// What identifies the content of a file without reading it.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// Whether files are read again when they have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// They are.
    OnChange,
    /// They are read once, at the start.
    Never,
}

/// A value made from files, kept in line with them. A bad change leaves the last good value in force.
pub(super) struct WatchedFiles<T, E> {
    paths: Vec<PathBuf>,
    reload: Reload,
    load: Load<T, E>,
    state: Mutex<State<T>>,
}

type Load<T, E> = Box<dyn Fn(&[PathBuf]) -> Result<T, E> + Send + Sync>;

struct State<T> {
    value: Arc<T>,
    stamps: Vec<Stamp>,
    looked_at: Instant,
}

impl<T, E: fmt::Display> WatchedFiles<T, E> {
    /// # Errors
    /// When the files cannot be used at the start.
    pub(super) fn new(
        paths: Vec<PathBuf>,
        load: impl Fn(&[PathBuf]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let stamps = stamps(&paths);
        let value = Arc::new(load(&paths)?);
        let state = Mutex::new(State { value, stamps, looked_at: Instant::now() });
        Ok(Self { paths, reload: Reload::OnChange, load: Box::new(load), state })
    }

    /// The same, read again or not.
    pub(super) fn with_reload(self, reload: Reload) -> Self {
        Self { reload, ..self }
    }

    /// The value as of at most a second ago.
    pub(super) fn current(&self) -> Arc<T> {
        self.as_of(Instant::now())
    }

    fn as_of(&self, now: Instant) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.reload == Reload::Never || now.saturating_duration_since(state.looked_at) < PERIOD {
            return state.value.clone();
        }
        state.looked_at = now;
        let found = stamps(&self.paths);
        if found != state.stamps {
            state.stamps = found;
            match (self.load)(&self.paths) {
                Ok(value) => {
                    tracing::info!(files = ?self.paths, "read again");
                    state.value = Arc::new(value);
                }
                Err(error) => tracing::warn!(files = ?self.paths, %error, "changed, but cannot be used"),
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

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
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
    fn a_good_change_is_taken_up_and_a_bad_one_not() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("number");
        let start = Instant::now();
        std::fs::write(&path, "1").unwrap();
        let files = WatchedFiles::new(vec![path.clone()], |paths| {
            std::fs::read_to_string(&paths[0])
                .map_err(|error| error.to_string())?
                .parse::<u32>()
                .map_err(|error| error.to_string())
        })
        .unwrap();
        let at = |seconds| *files.as_of(start + Duration::from_secs(seconds));
        std::fs::write(&path, "22").unwrap();
        assert_eq!(at(0), 1, "within the period");
        assert_eq!(at(2), 22);
        std::fs::write(&path, "no number").unwrap();
        assert_eq!(at(4), 22);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(at(6), 22);
        std::fs::write(&path, "333").unwrap();
        assert_eq!(at(8), 333);
    }
}
