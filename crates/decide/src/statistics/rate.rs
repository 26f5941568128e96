//! Current CPU use, from two readings.

use std::time::Duration;

use model::Timestamp;

/// Age of the start of the window at which the next reading replaces it.
const WINDOW: Duration = Duration::from_secs(10);
/// Minimum time between two readings.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum age of the start of the window.
const MAX_AGE: Duration = Duration::from_secs(600);

/// CPU readings of one cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRate {
    start: (Timestamp, u64),
    nano_cores: Option<u64>,
}

impl CpuRate {
    pub fn first(time: Timestamp, total: u64) -> Self {
        Self { start: (time, total), nano_cores: None }
    }

    /// Adds a reading; `total` is the CPU time in nanoseconds.
    #[must_use]
    pub fn next(self, time: Timestamp, total: u64) -> Self {
        let (start, before) = self.start;
        let passed = time.since(start);
        // The clock was set back.
        if passed > MAX_AGE || total < before || time < start {
            return Self::first(time, total);
        }
        let known_enough = self.nano_cores.is_some() && passed < WINDOW;
        if known_enough || passed < MIN_INTERVAL {
            return self;
        }
        let used = u128::from(total - before) * 1_000_000_000 / passed.as_nanos().max(1);
        let nano_cores = Some(u64::try_from(used).unwrap_or(u64::MAX));
        if passed < WINDOW { Self { nano_cores, ..self } } else { Self { start: (time, total), nano_cores } }
    }

    /// Nanocores; `None` before a second reading.
    pub fn nano_cores(self) -> Option<u64> {
        self.nano_cores
    }

    /// Whether the last reading is too old to be useful.
    pub fn is_stale(self, now: Timestamp) -> bool {
        now.since(self.start.0) > MAX_AGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn rate_needs_two_readings() {
        let rate = CpuRate::first(at(1_000), 0);
        assert_eq!(rate.nano_cores(), None);
        let rate = rate.next(at(3_000), 1_000_000_000);
        assert_eq!(rate.nano_cores(), Some(500_000_000));
    }

    #[test]
    fn rate_is_kept_for_its_window() {
        let rate = CpuRate::first(at(0), 0).next(at(2_000), 2_000_000_000);
        assert_eq!(rate.next(at(4_000), 2_000_000_000).nano_cores(), Some(1_000_000_000));
        let later = rate.next(at(20_000), 2_000_000_000);
        assert_eq!(later.nano_cores(), Some(100_000_000));
        assert_eq!(later.next(at(31_000), 13_000_000_000).nano_cores(), Some(1_000_000_000));
    }

    #[test]
    fn ignores_close_readings_and_counter_resets() {
        let rate = CpuRate::first(at(0), 50);
        assert_eq!(rate.next(at(10), 60).nano_cores(), None);
        assert_eq!(rate.next(at(5_000), 10), CpuRate::first(at(5_000), 10));
        assert_eq!(rate.next(at(700_000), 60), CpuRate::first(at(700_000), 60));
        let later = CpuRate::first(at(9_000), 0).next(at(11_000), 1_000_000_000);
        assert_eq!(later.next(at(5_000), 3_000_000_000), CpuRate::first(at(5_000), 3_000_000_000));
        assert!(rate.is_stale(at(700_000)) && !rate.is_stale(at(5_000)));
    }
}
