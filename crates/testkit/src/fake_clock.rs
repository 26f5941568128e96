//! A wall clock that tests control.

use std::time::Duration;

use model::Timestamp;
use parking_lot::Mutex;
use ports::clock::Clock;
use tokio::time::Instant;

/// A [`Clock`] that stands still, steps at each reading, or follows tokio's clock, which tests can pause.
#[derive(Debug)]
pub struct FakeClock {
    now: Mutex<Timestamp>,
    mode: Mode,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Fixed,
    Stepping(Duration),
    FollowingTokio(Instant),
}

impl FakeClock {
    /// Stands still until [`FakeClock::set`]. `seconds` count from 1970.
    #[must_use]
    pub fn fixed(seconds: i64) -> Self {
        Self::new(seconds, Mode::Fixed)
    }

    /// Advances by one second after each reading.
    #[must_use]
    pub fn stepping(seconds: i64) -> Self {
        Self::new(seconds, Mode::Stepping(Duration::from_secs(1)))
    }

    /// Advances with tokio's clock from now on.
    #[must_use]
    pub fn following_tokio(seconds: i64) -> Self {
        Self::new(seconds, Mode::FollowingTokio(Instant::now()))
    }

    fn new(seconds: i64, mode: Mode) -> Self {
        Self { now: Mutex::new(Timestamp::from_secs(seconds)), mode }
    }

    /// Sets the time of a fixed or stepping clock, or the start of one that follows tokio's.
    pub fn set(&self, now: Timestamp) {
        *self.now.lock() = now;
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::fixed(0)
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        let mut now = self.now.lock();
        match self.mode {
            Mode::Fixed => *now,
            Mode::Stepping(step) => {
                let next = now.after(step);
                std::mem::replace(&mut now, next)
            }
            Mode::FollowingTokio(start) => now.after(start.elapsed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clock_advances_as_its_mode_states() {
        let (fixed, stepping, following) =
            (FakeClock::fixed(5), FakeClock::stepping(5), FakeClock::following_tokio(5));
        tokio::time::advance(Duration::from_secs(2)).await;
        let read = |clock: &FakeClock| [clock.now(), clock.now()];
        let at = |seconds| Timestamp::from_secs(seconds);
        assert_eq!(read(&fixed), [at(5), at(5)]);
        assert_eq!(read(&stepping), [at(5), at(6)]);
        assert_eq!(read(&following), [at(7), at(7)]);
        fixed.set(at(9));
        assert_eq!(fixed.now(), at(9));
    }
}
