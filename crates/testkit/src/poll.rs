//! Waiting for the real world: ask again until the answer is right or the time is over.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How long between two questions.
const STEP: Duration = Duration::from_millis(25);

/// What must become true may take this long at least: the machine may be busy with other things, and only a test that
/// fails anyway waits in vain.
const PATIENCE: Duration = Duration::from_secs(90);

/// Asks `question` until it answers `Ok`; after `limit`, or a time that a busy machine needs if that is longer, the last
/// answer's error is returned.
pub async fn eventually<T, F>(what: &str, limit: Duration, question: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    within(what, limit.max(PATIENCE), question).await
}

/// The same for what may well stay false: exactly `limit` is waited.
pub async fn within<T, F>(what: &str, limit: Duration, mut question: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let start = Instant::now();
    loop {
        match question().await {
            Ok(answer) => return Ok(answer),
            Err(error) if start.elapsed() >= limit => {
                return Err(error).with_context(|| format!("{what}: not within {limit:?}"));
            }
            Err(_) => tokio::time::sleep(STEP).await,
        }
    }
}

/// Asks `question` again and again for `time`; the first error ends it.
pub async fn throughout<F>(what: &str, time: Duration, mut question: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let start = Instant::now();
    while start.elapsed() < time {
        question().await.with_context(|| format!("{what}: not for the whole of {time:?}"))?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Blocks the thread, for clean-up code that runs in `Drop`, outside of any runtime's reach.
#[expect(clippy::disallowed_methods, reason = "drop code cannot await")]
pub(crate) fn block(time: Duration) {
    std::thread::sleep(time);
}
