//! CPU use per second, from two readings of a counter. Nothing is read in the background: the readings are those of requests.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The rate of a shorter interval is mostly noise, so the last rate is given instead.
const MIN_INTERVAL_NANOSECONDS: u64 = 1_000_000_000;

/// The last reading of each container and sandbox, by id.
#[derive(Default)]
pub(crate) struct CpuRates(Mutex<BTreeMap<String, Reading>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    at: i64,
    used_nanoseconds: u64,
    rate: Option<u64>,
}

impl CpuRates {
    /// Nanoseconds of CPU time per second since the last reading; none for the first one.
    pub(crate) fn record(&self, id: &str, at: i64, used_nanoseconds: u64) -> Option<u64> {
        let mut readings = self.0.lock();
        let reading = next(readings.get(id).copied(), at, used_nanoseconds);
        readings.insert(id.to_owned(), reading);
        reading.rate
    }

    pub(crate) fn forget(&self, id: &str) {
        self.0.lock().remove(id);
    }
}

fn next(last: Option<Reading>, at: i64, used_nanoseconds: u64) -> Reading {
    let first = Reading { at, used_nanoseconds, rate: None };
    let Some(last) = last else { return first };
    // A clock that was set back or a new cgroup starts again.
    let Ok(interval) = u64::try_from(at.saturating_sub(last.at)) else { return first };
    let Some(used) = used_nanoseconds.checked_sub(last.used_nanoseconds) else { return first };
    if interval < MIN_INTERVAL_NANOSECONDS {
        return last;
    }
    let rate = u128::from(used) * 1_000_000_000 / u128::from(interval);
    Reading { rate: u64::try_from(rate).ok(), ..first }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn rate_needs_two_readings_and_a_second() {
        let rates = CpuRates::default();
        assert_eq!(rates.record("a", SECOND, 100), None);
        assert_eq!(rates.record("a", 3 * SECOND, 1_000_000_100), Some(500_000_000));
        assert_eq!(rates.record("a", 3 * SECOND + 10, 2_000_000_000), Some(500_000_000));
        assert_eq!(rates.record("b", 3 * SECOND, 5), None);
        rates.forget("a");
        assert_eq!(rates.record("a", 9 * SECOND, 3_000_000_000), None);
    }

    #[test]
    fn smaller_counter_or_time_starts_again() {
        let last = Some(Reading { at: SECOND, used_nanoseconds: 100, rate: Some(7) });
        assert_eq!(next(last, 3 * SECOND, 99).rate, None);
        assert_eq!(next(last, 0, 200), Reading { at: 0, used_nanoseconds: 200, rate: None });
    }
}
