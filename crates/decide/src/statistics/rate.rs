//! How much CPU is used now, from two readings.

use std::time::Duration;

use model::Timestamp;

/// A reading counts as the new start of the window once it is this much later than the old one.
const WINDOW: Duration = Duration::from_secs(10);
/// Readings closer than this say nothing.
const SHORTEST: Duration = Duration::from_millis(500);
/// A start older than this says nothing of now.
const LONGEST: Duration = Duration::from_secs(600);

/// What is known of one cgroup's CPU use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRate {
    start: (Timestamp, u64),
    nano_cores: Option<u64>,
}

impl CpuRate {
    /// After a first reading.
    #[must_use]
    pub fn first(time: Timestamp, total: u64) -> Self {
        Self { start: (time, total), nano_cores: None }
    }

    /// After another reading; `total` is the CPU time in nanoseconds.
    #[must_use]
    pub fn next(self, time: Timestamp, total: u64) -> Self {
        let (start, before) = self.start;
        let passed = time.since(start);
        // A time before the start: the clock was set back.
        if passed > LONGEST || total < before || time < start {
            return Self::first(time, total);
        }
        let known_enough = self.nano_cores.is_some() && passed < WINDOW;
        if known_enough || passed < SHORTEST {
            return self;
        }
        let used = u128::from(total - before) * 1_000_000_000 / passed.as_nanos().max(1);
        let nano_cores = Some(u64::try_from(used).unwrap_or(u64::MAX));
        if passed < WINDOW { Self { nano_cores, ..self } } else { Self { start: (time, total), nano_cores } }
    }

    /// Billionths of a CPU; `None` before a second reading.
    #[must_use]
    pub fn nano_cores(self) -> Option<u64> {
        self.nano_cores
    }

    /// Whether nobody asked for so long that it can be forgotten.
    #[must_use]
    pub fn is_stale(self, now: Timestamp) -> bool {
        now.since(self.start.0) > LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_first_reading_has_no_rate_and_the_second_does() {
        let rate = CpuRate::first(at(1_000), 0);
        assert_eq!(rate.nano_cores(), None);
        let rate = rate.next(at(3_000), 1_000_000_000);
        assert_eq!(rate.nano_cores(), Some(500_000_000));
    }

    #[test]
    fn a_rate_stands_until_its_window_is_over() {
        let rate = CpuRate::first(at(0), 0).next(at(2_000), 2_000_000_000);
        assert_eq!(rate.next(at(4_000), 2_000_000_000).nano_cores(), Some(1_000_000_000));
        let later = rate.next(at(20_000), 2_000_000_000);
        assert_eq!(later.nano_cores(), Some(100_000_000));
        assert_eq!(later.next(at(31_000), 13_000_000_000).nano_cores(), Some(1_000_000_000));
    }

    #[test]
    fn readings_at_once_and_counters_that_start_anew_say_nothing() {
        let rate = CpuRate::first(at(0), 50);
        assert_eq!(rate.next(at(10), 60).nano_cores(), None);
        assert_eq!(rate.next(at(5_000), 10), CpuRate::first(at(5_000), 10));
        assert_eq!(rate.next(at(700_000), 60), CpuRate::first(at(700_000), 60));
        let later = CpuRate::first(at(9_000), 0).next(at(11_000), 1_000_000_000);
        assert_eq!(later.next(at(5_000), 3_000_000_000), CpuRate::first(at(5_000), 3_000_000_000));
        assert!(rate.is_stale(at(700_000)) && !rate.is_stale(at(5_000)));
    }
}
