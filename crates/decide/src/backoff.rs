//! Crash and pull back-off: how long to wait before the next try.

use std::time::Duration;

use model::Timestamp;

/// First wait and longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// First wait.
    pub initial: Duration,
    /// Longest wait.
    pub cap: Duration,
}

impl Limits {
    /// Limits with a cap; a cap below the usual first wait of 10 s lowers that too.
    #[must_use]
    pub fn with_cap(cap: Duration) -> Self {
        Self { initial: cap.min(Duration::from_secs(10)), cap }
    }
}

/// What is remembered between two tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Wait that follows the next failure.
    pub delay: Duration,
    /// When the entry was made or grew.
    pub updated_at: Timestamp,
}

/// Whether to try now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not before `until`.
    Wait {
        /// The wait that is in force.
        delay: Duration,
        /// When it ends.
        until: Timestamp,
    },
    /// Now; `next` is to be remembered.
    Go {
        /// The entry for the following failure.
        next: Entry,
    },
}

/// Decides after a failure at `failed_at` (a container's end, or a pull's failure).
#[must_use]
pub fn decide(entry: Option<Entry>, failed_at: Timestamp, now: Timestamp, limits: Limits) -> Verdict {
    let live = entry.filter(|entry| failed_at.since(entry.updated_at) <= limits.cap * 2);
    match live {
        None => Verdict::Go { next: Entry { delay: limits.initial, updated_at: now } },
        Some(entry) => {
            let until = failed_at.after(entry.delay);
            if now < until {
                Verdict::Wait { delay: entry.delay, until }
            } else {
                let delay = (entry.delay * 2).min(limits.cap);
                Verdict::Go { next: Entry { delay, updated_at: now } }
            }
        }
    }
}

/// The entry of a container that crashed before this agent started. The agent that watched it is gone, so the
/// wait follows from the restart count, unless the last run was long enough to have reset it. One that never started
/// (its runtime refused) has no time of start and ran for no time.
#[must_use]
pub fn adopted(
    restarts: u32,
    started_at: Timestamp,
    finished_at: Timestamp,
    limits: Limits,
) -> Option<Entry> {
    let began = if started_at.is_zero() { finished_at } else { started_at };
    if restarts == 0 || began.is_zero() || finished_at.since(began) > limits.cap * 2 {
        return None;
    }
    let factor = 1u32.checked_shl(restarts.saturating_sub(1)).unwrap_or(u32::MAX);
    Some(Entry { delay: limits.initial.saturating_mul(factor).min(limits.cap), updated_at: began })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { initial: Duration::from_secs(10), cap: Duration::from_secs(300) };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + secs)
    }

    fn go(entry: Option<Entry>, failed: i64, now: i64) -> Entry {
        match decide(entry, at(failed), at(now), LIMITS) {
            Verdict::Go { next } => next,
            Verdict::Wait { until, .. } => panic!("waits until {until}"),
        }
    }

    #[test]
    fn first_restart_is_immediate_then_waits_double_up_to_the_cap() {
        let mut entry = go(None, 0, 0);
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..7 {
            let failed = now + 1;
            let Verdict::Wait { delay, until } = decide(Some(entry), at(failed), at(failed), LIMITS) else {
                panic!("no wait")
            };
            waits.push(delay.as_secs());
            now = failed + i64::try_from(delay.as_secs()).unwrap();
            assert_eq!(until, at(now));
            entry = go(Some(entry), failed, now);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_run_longer_than_twice_the_cap_resets() {
        let entry = Entry { delay: Duration::from_secs(160), updated_at: at(0) };
        assert_eq!(go(Some(entry), 601, 601).delay, Duration::from_secs(10));
        assert!(matches!(decide(Some(entry), at(600), at(600), LIMITS), Verdict::Wait { .. }));
    }

    #[test]
    fn a_low_cap_lowers_the_first_wait() {
        assert_eq!(Limits::with_cap(Duration::from_secs(1)).initial, Duration::from_secs(1));
        assert_eq!(Limits::with_cap(Duration::from_secs(300)).initial, Duration::from_secs(10));
    }

    #[test]
    fn an_adopted_crash_loop_goes_on_waiting() {
        let entry = adopted(3, at(0), at(1), LIMITS).unwrap();
        assert_eq!(entry.delay, Duration::from_secs(40));
        assert_eq!(adopted(0, at(0), at(1), LIMITS), None);
        let never_started = adopted(2, Timestamp::from_secs(0), at(1), LIMITS).unwrap();
        assert_eq!(never_started, Entry { delay: Duration::from_secs(20), updated_at: at(1) });
        assert_eq!(adopted(2, Timestamp::from_secs(0), Timestamp::from_secs(0), LIMITS), None);
        assert_eq!(adopted(3, at(0), at(601), LIMITS), None);
        assert_eq!(adopted(200, at(0), at(1), LIMITS).unwrap().delay, Duration::from_secs(300));
    }

    proptest! {
        #[test]
        fn never_waits_longer_than_the_cap(delay in 10u64..1000, updated in 0i64..2000, failed in 0i64..2000, wait in 0i64..2000) {
            let entry = Entry { delay: Duration::from_secs(delay.min(300)), updated_at: at(updated) };
            match decide(Some(entry), at(failed), at(failed + wait), LIMITS) {
                Verdict::Wait { delay, until } => {
                    prop_assert!(delay <= LIMITS.cap);
                    prop_assert!(until > at(failed + wait));
                    // Waiting until the announced time is enough.
                    prop_assert!(matches!(decide(Some(entry), at(failed), until, LIMITS), Verdict::Go { .. }), "still waits");
                }
                Verdict::Go { next } => prop_assert!(next.delay <= LIMITS.cap && next.delay >= LIMITS.initial.min(LIMITS.cap)),
            }
        }
    }
}
