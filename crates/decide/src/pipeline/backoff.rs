//! Backoff of crashing containers and of failed image pulls.

use std::time::Duration;

use model::{Pod, Timestamp};
use timing::BackoffPolicy;
use values::duration::GoDuration;

/// Backoff of image pulls: 10 s doubling to 5 min.
pub const PULL_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(10), Duration::from_secs(300)).with_reset_after(RESET_AFTER);
/// A failure later than this after the previous attempt counts as the first.
const RESET_AFTER: Duration = Duration::from_secs(600);

/// Initial delay and cap of the crash loop backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashBackoffDecay {
    /// From 10 s to 5 min.
    Default,
    /// From 1 s to 1 min (`ReduceDefaultCrashLoopBackOffDecay`).
    Reduced,
}

/// Backoff of crashing containers. A cap below the initial delay lowers the initial delay too. The backoff is reset after a
/// run of ten minutes, whatever the cap is.
pub fn crash_backoff(decay: CrashBackoffDecay, cap: Option<Duration>) -> BackoffPolicy {
    let (initial, default_cap) = match decay {
        CrashBackoffDecay::Default => (10, 300),
        CrashBackoffDecay::Reduced => (1, 60),
    };
    let cap = cap.unwrap_or(Duration::from_secs(default_cap));
    BackoffPolicy::doubling(cap.min(Duration::from_secs(initial)), cap).with_reset_after(RESET_AFTER)
}

/// The `CrashLoopBackOff` message of a container.
pub fn crash_message(pod: &Pod, container: &str, delay: Duration) -> String {
    let (pod, delay) = (pod.log_name(), GoDuration::from(delay).truncated_to_millis());
    format!("back-off {delay} restarting failed container={container} pod={pod}")
}

/// Backoff state of one container or image, kept between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffEntry {
    /// Delay after the next failure.
    pub delay: Duration,
    /// When the entry was created or `delay` grew.
    pub updated_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackoffDecision {
    Wait {
        /// The current delay, for the message to the user.
        delay: Duration,
        until: Timestamp,
    },
    /// Now; the caller stores `next` for the following failure.
    Retry { next: BackoffEntry },
}

/// Decides after a failure at `failed_at`: the exit of a container, or a failed pull.
pub fn decide(
    entry: Option<BackoffEntry>,
    failed_at: Timestamp,
    now: Timestamp,
    policy: BackoffPolicy,
) -> BackoffDecision {
    let live = entry.filter(|entry| !policy.is_reset_after(failed_at.since(entry.updated_at)));
    match live {
        None => BackoffDecision::Retry { next: BackoffEntry { delay: policy.initial, updated_at: now } },
        Some(entry) => {
            let until = failed_at.after(entry.delay);
            // A failure in the future means that the clock was set back. Its age is unknown, so it causes no wait.
            let is_past = failed_at <= now;
            if is_past && now < until {
                BackoffDecision::Wait { delay: entry.delay, until }
            } else {
                BackoffDecision::Retry {
                    next: BackoffEntry { delay: policy.grow(entry.delay), updated_at: now },
                }
            }
        }
    }
}

/// The entry of a container that crashed before this agent started. Its delay follows from the restart count, unless the
/// last run was long enough to reset the backoff. A container that the runtime failed to start has no start time and
/// counts as a run of zero length.
pub fn adopt_entry(
    restarts: u32,
    started_at: Timestamp,
    finished_at: Timestamp,
    policy: BackoffPolicy,
) -> Option<BackoffEntry> {
    let started_at = if started_at.is_zero() { finished_at } else { started_at };
    if restarts == 0 || started_at.is_zero() || policy.is_reset_after(finished_at.since(started_at)) {
        return None;
    }
    Some(BackoffEntry { delay: policy.delay_after(restarts), updated_at: started_at })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_objects::pod;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + secs)
    }

    fn retry(entry: Option<BackoffEntry>, failed: i64, now: i64) -> BackoffEntry {
        match decide(entry, at(failed), at(now), PULL_BACKOFF) {
            BackoffDecision::Retry { next } => next,
            BackoffDecision::Wait { until, .. } => panic!("waits until {until}"),
        }
    }

    #[test]
    fn first_restart_is_immediate_then_delay_doubles_up_to_cap() {
        let mut entry = retry(None, 0, 0);
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..7 {
            let failed = now + 1;
            let BackoffDecision::Wait { delay, until } =
                decide(Some(entry), at(failed), at(failed), PULL_BACKOFF)
            else {
                panic!("no wait")
            };
            waits.push(delay.as_secs());
            now = failed + i64::try_from(delay.as_secs()).unwrap();
            assert_eq!(until, at(now));
            entry = retry(Some(entry), failed, now);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn run_of_more_than_ten_minutes_resets_backoff() {
        let entry = BackoffEntry { delay: Duration::from_secs(160), updated_at: at(0) };
        assert_eq!(retry(Some(entry), 601, 601).delay, Duration::from_secs(10));
        assert!(matches!(decide(Some(entry), at(600), at(600), PULL_BACKOFF), BackoffDecision::Wait { .. }));
        let low = crash_backoff(CrashBackoffDecay::Default, Some(Duration::from_secs(30)));
        let entry = BackoffEntry { delay: low.cap, updated_at: at(0) };
        assert!(matches!(decide(Some(entry), at(599), at(599), low), BackoffDecision::Wait { .. }));
        assert!(matches!(decide(Some(entry), at(601), at(601), low), BackoffDecision::Retry { .. }));
        assert_eq!(adopt_entry(9, at(0), at(599), low).unwrap().delay, low.cap);
        assert_eq!(adopt_entry(9, at(0), at(601), low), None);
    }

    #[test]
    fn cap_and_feature_gate_set_initial_delay_and_cap() {
        let waits = |decay, cap: Option<u64>| {
            let policy = crash_backoff(decay, cap.map(Duration::from_secs));
            (policy.initial.as_secs(), policy.cap.as_secs())
        };
        assert_eq!(waits(CrashBackoffDecay::Default, None), (10, 300));
        assert_eq!(waits(CrashBackoffDecay::Default, Some(300)), (10, 300));
        assert_eq!(waits(CrashBackoffDecay::Default, Some(1)), (1, 1));
        assert_eq!(waits(CrashBackoffDecay::Reduced, None), (1, 60));
        assert_eq!(waits(CrashBackoffDecay::Reduced, Some(300)), (1, 300));
    }

    #[test]
    fn crash_message_formats_delay_like_go() {
        let pod = pod(serde_json::json!({"containers": []}));
        for (secs, text) in [(10, "10s"), (80, "1m20s"), (300, "5m0s")] {
            assert_eq!(
                crash_message(&pod, "c", Duration::from_secs(secs)),
                format!("back-off {text} restarting failed container=c pod=p_default(u)")
            );
        }
    }

    #[test]
    fn adopted_crash_loop_continues_its_backoff() {
        let entry = adopt_entry(3, at(0), at(1), PULL_BACKOFF).unwrap();
        assert_eq!(entry.delay, Duration::from_secs(40));
        assert_eq!(adopt_entry(0, at(0), at(1), PULL_BACKOFF), None);
        let never_started = adopt_entry(2, Timestamp::from_secs(0), at(1), PULL_BACKOFF).unwrap();
        assert_eq!(never_started, BackoffEntry { delay: Duration::from_secs(20), updated_at: at(1) });
        assert_eq!(adopt_entry(2, Timestamp::from_secs(0), Timestamp::from_secs(0), PULL_BACKOFF), None);
        assert_eq!(adopt_entry(3, at(0), at(601), PULL_BACKOFF), None);
        assert_eq!(adopt_entry(200, at(0), at(1), PULL_BACKOFF).unwrap().delay, Duration::from_secs(300));
    }

    #[test]
    fn clock_set_back_does_not_prolong_the_delay() {
        let entry = retry(None, 0, 0);
        let next = retry(Some(entry), 5, -3_600);
        assert_eq!(next, BackoffEntry { delay: Duration::from_secs(20), updated_at: at(-3_600) });
        let later = decide(Some(next), at(-3_590), at(-3_590), PULL_BACKOFF);
        assert_eq!(later, BackoffDecision::Wait { delay: Duration::from_secs(20), until: at(-3_570) });
    }

    proptest! {
        #[test]
        fn remaining_wait_never_exceeds_the_delay(updated in 0i64..9000, failed in 0i64..9000, now in 0i64..9000) {
            let entry = BackoffEntry { delay: Duration::from_secs(40), updated_at: at(updated) };
            if let BackoffDecision::Wait { delay, until } = decide(Some(entry), at(failed), at(now), PULL_BACKOFF) {
                prop_assert!(until.since(at(now)) <= delay);
            }
        }

        #[test]
        fn delay_never_exceeds_the_cap(delay in 10u64..1000, updated in 0i64..2000, failed in 0i64..2000, wait in 0i64..2000) {
            let entry = BackoffEntry { delay: Duration::from_secs(delay.min(300)), updated_at: at(updated) };
            match decide(Some(entry), at(failed), at(failed + wait), PULL_BACKOFF) {
                BackoffDecision::Wait { delay, until } => {
                    prop_assert!(delay <= PULL_BACKOFF.cap);
                    prop_assert!(until > at(failed + wait));
                    // Waiting until the returned time is enough.
                    prop_assert!(matches!(decide(Some(entry), at(failed), until, PULL_BACKOFF), BackoffDecision::Retry { .. }), "still waits");
                }
                BackoffDecision::Retry { next } => prop_assert!(next.delay <= PULL_BACKOFF.cap && next.delay >= PULL_BACKOFF.initial.min(PULL_BACKOFF.cap)),
            }
        }
    }
}
