//! Work on file systems of others, which may never come back: a share whose server is gone, a disk that hangs.
//!
//! A thread that hangs cannot be stopped. What hangs keeps its own thread and nobody else's.

use std::io;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

/// Threads of the runtime that such work may hold.
pub const FOREIGN_PLACES: usize = 16;
/// How long work waits for one of them; then it gets a thread of its own.
const PATIENCE: Duration = Duration::from_secs(2);
const STACK: usize = 1024 * 1024;

static PLACES: Semaphore = Semaphore::const_new(FOREIGN_PLACES);

/// Does work that may hang.
///
/// # Errors
/// When its thread cannot be made or is lost.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    match tokio::time::timeout(PATIENCE, PLACES.acquire()).await {
        Ok(Ok(place)) => {
            let work = move || {
                let _place = place;
                work()
            };
            tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
        }
        // All of them hang.
        Ok(Err(_)) | Err(_) => {
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
