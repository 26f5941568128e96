//! Waiting for the real world: retry a check until it succeeds or times out.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Minimum timeout of [`eventually`]: the machine may be busy, and only a failing test waits that long.
const MIN_TIMEOUT: Duration = Duration::from_secs(90);

/// Retries `question` until it returns `Ok`. After `limit`, or 90 s if that is longer, returns its last
/// error.
pub async fn eventually<T, F>(what: &str, limit: Duration, question: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    within(what, limit.max(MIN_TIMEOUT), question).await
}

/// Like [`eventually`] for a condition that may stay false: the timeout is exactly `limit`.
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
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Repeats `question` for `time`; returns its first error.
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

/// Blocks the thread, for cleanup in `Drop`, where no async runtime is available.
#[expect(clippy::disallowed_methods, reason = "drop code cannot await")]
pub(crate) fn block(time: Duration) {
    std::thread::sleep(time);
}
