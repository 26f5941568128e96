//! A least time between two runs of the same work.

use std::time::Duration;

use tokio::time::Instant;

/// Work that is requested often and runs at most once per period: at once after a quiet time, otherwise a period after
/// the last run.
#[derive(Clone, Copy, Debug)]
pub struct Throttle {
    period: Duration,
    last_run: Option<Instant>,
    due: Option<Instant>,
}

impl Throttle {
    #[must_use]
    pub const fn new(period: Duration) -> Self {
        Self { period, last_run: None, due: None }
    }

    /// Requests a run. Requests before the next run are one.
    pub fn request(&mut self) {
        let now = Instant::now();
        let earliest = self.last_run.map_or(now, |last| last + self.period);
        self.due.get_or_insert(earliest.max(now));
    }

    /// Returns when the next run is due; `None` without a request.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// A run starts now; the requests before it are served.
    pub fn start(&mut self) {
        self.last_run = Some(Instant::now());
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn runs_at_once_and_then_once_per_period() {
        let period = Duration::from_millis(500);
        let mut throttle = Throttle::new(period);
        assert_eq!(throttle.due(), None);
        let first = Instant::now();
        throttle.request();
        assert_eq!(throttle.due(), Some(first));
        throttle.start();
        assert_eq!(throttle.due(), None);
        tokio::time::advance(period / 5).await;
        throttle.request();
        throttle.request();
        assert_eq!(throttle.due(), Some(first + period));
        tokio::time::advance(period).await;
        throttle.start();
        tokio::time::advance(period * 2).await;
        throttle.request();
        assert_eq!(throttle.due(), Some(Instant::now()));
    }
}
