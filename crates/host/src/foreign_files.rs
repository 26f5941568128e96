//! Work on file systems of others, which may never come back: a share whose server is gone, a disk that hangs.
//!
//! A thread that hangs cannot be stopped. What hangs keeps its own thread and nobody else's.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

/// Threads of the runtime that such work may hold.
pub const FOREIGN_PLACES: usize = 16;
/// How long work waits for one of them; then it gets a thread of its own.
const PATIENCE: Duration = Duration::from_secs(2);
const STACK: usize = 1024 * 1024;

static PLACES: Places =
    Places { free: Semaphore::const_new(FOREIGN_PLACES), all_hang: AtomicBool::new(false) };

struct Places {
    free: Semaphore,
    /// Somebody waited in vain, and no place was given back since: waiting again would be in vain, too.
    all_hang: AtomicBool,
}

/// A place, until it is dropped.
struct Place<'a> {
    all_hang: &'a AtomicBool,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.all_hang.store(false, Ordering::Relaxed);
    }
}

impl Places {
    async fn take(&self) -> Option<Place<'_>> {
        let permit = match self.free.try_acquire() {
            Ok(permit) => permit,
            Err(_) if self.all_hang.load(Ordering::Relaxed) => return None,
            Err(_) => match tokio::time::timeout(PATIENCE, self.free.acquire()).await {
                Ok(acquired) => acquired.ok()?,
                Err(_) => {
                    self.all_hang.store(true, Ordering::Relaxed);
                    return None;
                }
            },
        };
        Some(Place { all_hang: &self.all_hang, _permit: permit })
    }
}

/// Does work that may hang.
///
/// # Errors
/// When its thread cannot be made or is lost.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    match PLACES.take().await {
        Some(place) => {
            let work = move || {
                let _place = place;
                work()
            };
            tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
        }
        None => {
            let (tell, told) = oneshot::channel();
            let work = move || {
                // Who asked may have given up.
                let _ = tell.send(work());
            };
            std::thread::Builder::new().name("foreign-files".to_owned()).stack_size(STACK).spawn(work)?;
            told.await.map_err(io::Error::other)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn once_all_places_hang_nobody_waits_for_one() {
        let places = Places { free: Semaphore::const_new(1), all_hang: AtomicBool::new(false) };
        let hanging = places.take().await.unwrap();
        let begun = tokio::time::Instant::now();
        assert!(places.take().await.is_none());
        assert_eq!(begun.elapsed(), PATIENCE);
        assert!(places.take().await.is_none());
        assert_eq!(begun.elapsed(), PATIENCE);
        drop(hanging);
        assert!(places.take().await.is_some());
    }

    #[tokio::test]
    async fn what_hangs_holds_up_nobody() {
        let mut hanging = tokio::task::JoinSet::new();
        let mut releases = Vec::new();
        for _ in 0..FOREIGN_PLACES * 2 {
            let (release, released) = mpsc::channel::<()>();
            releases.push(release);
            hanging.spawn(apart(move || released.recv().is_err()));
        }
        assert_eq!(apart(|| 7).await.unwrap(), 7);
        drop(releases);
        while let Some(ended) = hanging.join_next().await {
            assert!(ended.unwrap().unwrap());
        }
    }
}
