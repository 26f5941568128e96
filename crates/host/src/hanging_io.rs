//! Runs file work that may hang, such as on a network share without its server or on a failed disk.
//!
//! A hanging thread cannot be stopped. This module keeps hanging work from exhausting the runtime's blocking threads.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

/// Blocking threads of the runtime that such work may occupy.
pub const HANGING_IO_THREADS: usize = 16;
/// How long work waits for one of these threads before it gets a new one.
const SLOT_TIMEOUT: Duration = Duration::from_secs(2);
const STACK_BYTES: usize = 1024 * 1024;

static SLOTS: ThreadSlots =
    ThreadSlots { free: Semaphore::const_new(HANGING_IO_THREADS), all_hang: AtomicBool::new(false) };

struct ThreadSlots {
    free: Semaphore,
    /// A caller timed out waiting for a slot, and no slot was released since: later callers do not wait.
    all_hang: AtomicBool,
}

/// Releases its slot when dropped.
struct ThreadSlot<'a> {
    all_hang: &'a AtomicBool,
    _permit: SemaphorePermit<'a>,
}

impl Drop for ThreadSlot<'_> {
    fn drop(&mut self) {
        self.all_hang.store(false, Ordering::Relaxed);
    }
}

impl ThreadSlots {
    async fn acquire(&self) -> Option<ThreadSlot<'_>> {
        let permit = match self.free.try_acquire() {
            Ok(permit) => permit,
            Err(_) if self.all_hang.load(Ordering::Relaxed) => return None,
            Err(_) => match tokio::time::timeout(SLOT_TIMEOUT, self.free.acquire()).await {
                Ok(acquired) => acquired.ok()?,
                Err(_) => {
                    self.all_hang.store(true, Ordering::Relaxed);
                    return None;
                }
            },
        };
        Some(ThreadSlot { all_hang: &self.all_hang, _permit: permit })
    }
}

/// Runs work that may hang.
///
/// # Errors
/// If its thread cannot be started or panics.
pub(crate) async fn run_may_hang<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    match SLOTS.acquire().await {
        Some(slot) => {
            let work = move || {
                let _slot = slot;
                work()
            };
            tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
        }
        None => {
            let (result_sender, result) = oneshot::channel();
            let work = move || {
                // The caller may have stopped waiting.
                let _ = result_sender.send(work());
            };
            std::thread::Builder::new().name("hanging-io".to_owned()).stack_size(STACK_BYTES).spawn(work)?;
            result.await.map_err(io::Error::other)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_do_not_wait_while_all_slots_hang() {
        let slots = ThreadSlots { free: Semaphore::const_new(1), all_hang: AtomicBool::new(false) };
        let hanging = slots.acquire().await.unwrap();
        let begun = tokio::time::Instant::now();
        assert!(slots.acquire().await.is_none());
        assert_eq!(begun.elapsed(), SLOT_TIMEOUT);
        assert!(slots.acquire().await.is_none());
        assert_eq!(begun.elapsed(), SLOT_TIMEOUT);
        drop(hanging);
        assert!(slots.acquire().await.is_some());
    }

    #[tokio::test]
    async fn hanging_work_does_not_block_other_work() {
        let mut hanging = tokio::task::JoinSet::new();
        let mut releases = Vec::new();
        for _ in 0..HANGING_IO_THREADS * 2 {
            let (release, released) = mpsc::channel::<()>();
            releases.push(release);
            hanging.spawn(run_may_hang(move || released.recv().is_err()));
        }
        assert_eq!(run_may_hang(|| 7).await.unwrap(), 7);
        drop(releases);
        while let Some(ended) = hanging.join_next().await {
            assert!(ended.unwrap().unwrap());
        }
    }
}
