//! Crash and pull back-off: how long to wait before the next try.

use std::time::Duration;

use model::{Pod, Timestamp};

use crate::go_duration::to_milliseconds_text;

/// First wait, longest wait and what ends a row of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// First wait.
    pub initial: Duration,
    /// Longest wait.
    pub cap: Duration,
    /// A failure that comes so long after the last try counts as the first one.
    pub forget_after: Duration,
}

/// How fast the waits of a container that crashes grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decay {
    /// From 10 s to 5 min.
    Usual,
    /// From 1 s to 1 min (`ReduceDefaultCrashLoopBackOffDecay`).
    Reduced,
}

impl Limits {
    /// Limits for containers that crash; a cap below the first wait lowers that too. Whatever the cap is, a container
    /// has to run for ten minutes before its crashes are forgotten.
    #[must_use]
    pub fn of_crashes(decay: Decay, cap: Option<Duration>) -> Self {
        let (initial, longest) = match decay {
            Decay::Usual => (10, 300),
            Decay::Reduced => (1, 60),
        };
        let cap = cap.unwrap_or(Duration::from_secs(longest));
        Self { initial: cap.min(Duration::from_secs(initial)), cap, forget_after: Duration::from_secs(600) }
    }
}

/// What users are told of a container that waits.
#[must_use]
pub fn crash_message(pod: &Pod, container: &str, delay: Duration) -> String {
    let (name, namespace, uid) = (pod.name(), pod.namespace(), &pod.uid);
    let delay = to_milliseconds_text(delay);
    format!("back-off {delay} restarting failed container={container} pod={name}_{namespace}({uid})")
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
    let live = entry.filter(|entry| failed_at.since(entry.updated_at) <= limits.forget_after);
    match live {
        None => Verdict::Go { next: Entry { delay: limits.initial, updated_at: now } },
        Some(entry) => {
            let until = failed_at.after(entry.delay);
            // A failure in the future: the clock was set back, and how long ago it was nobody knows. The next one counts.
            let is_past = failed_at <= now;
            if is_past && now < until {
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
    if restarts == 0 || began.is_zero() || finished_at.since(began) > limits.forget_after {
        return None;
    }
    let factor = 1u32.checked_shl(restarts.saturating_sub(1)).unwrap_or(u32::MAX);
    Some(Entry { delay: limits.initial.saturating_mul(factor).min(limits.cap), updated_at: began })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_objects::pod;

    const LIMITS: Limits = Limits {
        initial: Duration::from_secs(10),
        cap: Duration::from_secs(300),
        forget_after: Duration::from_secs(600),
    };

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
    fn a_run_of_more_than_ten_minutes_resets_whatever_the_cap_is() {
        let entry = Entry { delay: Duration::from_secs(160), updated_at: at(0) };
        assert_eq!(go(Some(entry), 601, 601).delay, Duration::from_secs(10));
        assert!(matches!(decide(Some(entry), at(600), at(600), LIMITS), Verdict::Wait { .. }));
        let low = Limits::of_crashes(Decay::Usual, Some(Duration::from_secs(30)));
        let entry = Entry { delay: low.cap, updated_at: at(0) };
        assert!(matches!(decide(Some(entry), at(599), at(599), low), Verdict::Wait { .. }));
        assert!(matches!(decide(Some(entry), at(601), at(601), low), Verdict::Go { .. }));
        assert_eq!(adopted(9, at(0), at(599), low).unwrap().delay, low.cap);
        assert_eq!(adopted(9, at(0), at(601), low), None);
    }

    #[test]
    fn the_cap_and_the_gate_set_the_waits() {
        let waits = |decay, cap: Option<u64>| {
            let limits = Limits::of_crashes(decay, cap.map(Duration::from_secs));
            (limits.initial.as_secs(), limits.cap.as_secs())
        };
        assert_eq!(waits(Decay::Usual, None), (10, 300));
        assert_eq!(waits(Decay::Usual, Some(300)), (10, 300));
        assert_eq!(waits(Decay::Usual, Some(1)), (1, 1));
        assert_eq!(waits(Decay::Reduced, None), (1, 60));
        assert_eq!(waits(Decay::Reduced, Some(300)), (1, 300));
    }

    #[test]
    fn waits_are_told_as_go_writes_them() {
        let pod = pod(serde_json::json!({"containers": []}));
        for (secs, text) in [(10, "10s"), (80, "1m20s"), (300, "5m0s")] {
            assert_eq!(
                crash_message(&pod, "c", Duration::from_secs(secs)),
                format!("back-off {text} restarting failed container=c pod=p_default(u)")
            );
        }
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

    #[test]
    fn a_clock_that_is_set_back_does_not_prolong_a_wait() {
        let entry = go(None, 0, 0);
        let next = go(Some(entry), 5, -3_600);
        assert_eq!(next, Entry { delay: Duration::from_secs(20), updated_at: at(-3_600) });
        let later = decide(Some(next), at(-3_590), at(-3_590), LIMITS);
        assert_eq!(later, Verdict::Wait { delay: Duration::from_secs(20), until: at(-3_570) });
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_it_says(updated in 0i64..9000, failed in 0i64..9000, now in 0i64..9000) {
            let entry = Entry { delay: Duration::from_secs(40), updated_at: at(updated) };
            if let Verdict::Wait { delay, until } = decide(Some(entry), at(failed), at(now), LIMITS) {
                prop_assert!(until.since(at(now)) <= delay);
            }
        }

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
