use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

/// A timer that fires later than this tells that the agent was not given the processor.
const LATE: Duration = Duration::from_millis(25);

/// Awaits `work` for `limit` of its own time; `None` when that is over.
///
/// When the agent comes late to its own timer, the answer may lie unread: the lost time is given back, up to
/// `limit` in all.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut deadline = Instant::now() + limit;
    let mut lost_before = Duration::ZERO;
    loop {
        if let Ok(done) = tokio::time::timeout_at(deadline, work.as_mut()).await {
            return Some(done);
        }
        let now = Instant::now();
        let lost = now.saturating_duration_since(deadline).min(limit.saturating_sub(lost_before));
        if lost < LATE {
            return None;
        }
        lost_before += lost;
        deadline = now + lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ends_at_the_limit() {
        let begun = Instant::now();
        assert_eq!(within(Duration::from_secs(1), std::future::pending::<()>()).await, None);
        assert!(begun.elapsed() < Duration::from_millis(1010));
    }

    #[tokio::test(start_paused = true)]
    async fn gives_back_the_time_in_which_the_agent_stood_still() {
        let work = async {
            // The whole agent stands still, its timers too.
            tokio::time::advance(Duration::from_secs(3)).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            7
        };
        assert_eq!(within(Duration::from_secs(1), work).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn gives_back_no_more_than_the_limit() {
        let work = async {
            tokio::time::advance(Duration::from_secs(30)).await;
            tokio::time::sleep(Duration::from_millis(1500)).await;
        };
        assert_eq!(within(Duration::from_secs(1), work).await, None);
    }
}
