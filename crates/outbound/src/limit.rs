use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

/// If a timer fires later than this, the agent was not scheduled in time.
const STALL_THRESHOLD: Duration = Duration::from_millis(25);

/// Awaits `work`; returns `None` after `limit`.
///
/// If the timer fires late, the agent was not scheduled and the response may already be in the socket buffer. So the
/// deadline is extended by the lost time, up to `limit` in total.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut deadline = Instant::now() + limit;
    let mut total_lost = Duration::ZERO;
    loop {
        if let Ok(done) = tokio::time::timeout_at(deadline, work.as_mut()).await {
            return Some(done);
        }
        let now = Instant::now();
        let lost = now.saturating_duration_since(deadline).min(limit.saturating_sub(total_lost));
        if lost < STALL_THRESHOLD {
            return None;
        }
        total_lost += lost;
        deadline = now + lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn returns_none_at_the_limit() {
        let started_at = Instant::now();
        assert_eq!(within(Duration::from_secs(1), std::future::pending::<()>()).await, None);
        assert!(started_at.elapsed() < Duration::from_millis(1010));
    }

    #[tokio::test(start_paused = true)]
    async fn extends_deadline_by_time_the_agent_was_stalled() {
        let work = async {
            // Simulates a stall of the agent and its timers.
            tokio::time::advance(Duration::from_secs(3)).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            7
        };
        assert_eq!(within(Duration::from_secs(1), work).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn extends_deadline_by_at_most_the_limit() {
        let work = async {
            tokio::time::advance(Duration::from_secs(30)).await;
            tokio::time::sleep(Duration::from_millis(1500)).await;
        };
        assert_eq!(within(Duration::from_secs(1), work).await, None);
    }
}
