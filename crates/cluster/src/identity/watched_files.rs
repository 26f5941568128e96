//! Values loaded from files and reloaded on use if the files have changed, so that an idle node does no work.

use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum time between two checks for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a caller waits for a check; a disk that works needs less than a millisecond.
const CHECK_TIMEOUT: Duration = Duration::from_millis(50);

/// Device, inode, size and modification time: detects a change without reading the file.
type FileStamp = Option<(u64, u64, u64, i64, i64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    OnChange,
    Never,
}

/// A value loaded from files. If a changed file is invalid, the last valid value stays in force.
pub(super) struct WatchedFiles<T, E>(Arc<Shared<T, E>>);

struct Shared<T, E> {
    paths: Vec<PathBuf>,
    reload: Reload,
    load: Load<T, E>,
    state: Mutex<State<T>>,
    check_ended: Condvar,
}

type Load<T, E> = Box<dyn Fn(&[PathBuf]) -> Result<T, E> + Send + Sync>;

struct State<T> {
    value: Arc<T>,
    stamps: Vec<FileStamp>,
    checked_at: Instant,
    is_checking: bool,
}

impl<T: Send + Sync + 'static, E: fmt::Display + 'static> WatchedFiles<T, E> {
    /// # Errors
    /// If the first load fails.
    pub(super) fn new(
        paths: Vec<PathBuf>,
        reload: Reload,
        load: impl Fn(&[PathBuf]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let stamps = stamps(&paths);
        let value = Arc::new(load(&paths)?);
        let state = Mutex::new(State { value, stamps, checked_at: Instant::now(), is_checking: false });
        let shared = Shared { paths, reload, load: Box::new(load), state, check_ended: Condvar::new() };
        Ok(Self(Arc::new(shared)))
    }

    /// Returns a value that is at most one second old, or the last one while the disk hangs.
    pub(super) fn current(&self) -> Arc<T> {
        self.as_of(Instant::now())
    }

    fn as_of(&self, now: Instant) -> Arc<T> {
        let shared = &self.0;
        let mut state = shared.state.lock();
        let is_fresh = now.saturating_duration_since(state.checked_at) < CHECK_INTERVAL;
        if shared.reload == Reload::Never || is_fresh || state.is_checking {
            return state.value.clone();
        }
        (state.checked_at, state.is_checking) = (now, true);
        let checking = Arc::clone(shared);
        // The caller is an async worker, which must not hang with the disk.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || checking.check())),
            Err(_) => drop(std::thread::spawn(move || checking.check())),
        }
        let _ = shared.check_ended.wait_while_for(&mut state, |state| state.is_checking, CHECK_TIMEOUT);
        state.value.clone()
    }
}

impl<T, E: fmt::Display> Shared<T, E> {
    fn check(&self) {
        let found = stamps(&self.paths);
        let has_changed = found != self.state.lock().stamps;
        let loaded = has_changed.then(|| (self.load)(&self.paths));
        let mut state = self.state.lock();
        match loaded {
            None => {}
            Some(Ok(value)) => {
                tracing::info!(files = ?self.paths, "reloaded changed files");
                state.value = Arc::new(value);
            }
            Some(Err(error)) => {
                tracing::warn!(files = ?self.paths, %error, "failed to reload changed files; keeping the previous value");
            }
        }
        (state.stamps, state.is_checking) = (found, false);
        self.check_ended.notify_all();
    }
}

impl<T, E> fmt::Debug for WatchedFiles<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedFiles").field("paths", &self.0.paths).finish_non_exhaustive()
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
        let value_at = |seconds| {
            files.as_of(start + Duration::from_secs(seconds));
            let mut state = files.0.state.lock();
            files.0.check_ended.wait_while(&mut state, |state| state.is_checking);
            *state.value
        };
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

    #[test]
    fn callers_get_the_last_value_while_the_disk_hangs() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "1").unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Mutex::new(released);
        let loads = std::sync::atomic::AtomicUsize::new(0);
        let files = WatchedFiles::new(vec![path.clone()], Reload::OnChange, move |_| {
            let load = loads.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if load > 0 {
                // Ends when the test drops the sender.
                let _ = released.lock().recv();
            }
            Ok::<usize, String>(load)
        })
        .unwrap();
        std::fs::write(&path, "22").unwrap();
        for seconds in [2, 4, 6] {
            assert_eq!(*files.as_of(Instant::now() + Duration::from_secs(seconds)), 0);
        }
        drop(release);
        let mut state = files.0.state.lock();
        files.0.check_ended.wait_while(&mut state, |state| state.is_checking);
        assert_eq!(*state.value, 1);
    }
}
