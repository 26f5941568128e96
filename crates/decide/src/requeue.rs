//! How soon a worker is called again.

use std::time::Duration;

use model::{SyncFailure, Timestamp};

/// Wait after most failures, before jitter.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// Wait while the runtime is at work on an earlier call, before jitter.
const WHILE_BUSY: Duration = Duration::from_millis(200);
/// Wait while the runtime or its network is away, before jitter.
const WHILE_AWAY: Duration = Duration::from_secs(1);

/// The wait after a pass that went well. `spread` is a random number from 0 to 1.
#[must_use]
pub fn after_success(
    sync_frequency: Duration,
    retry_at: Option<Timestamp>,
    now: Timestamp,
    spread: f64,
) -> Duration {
    match retry_at {
        Some(at) => at.since(now).min(sync_frequency),
        None => jittered(sync_frequency, spread),
    }
}

/// The wait after a pass that failed.
#[must_use]
pub fn after_failure(failure: &SyncFailure, spread: f64) -> Duration {
    match failure {
        SyncFailure::Interrupted => Duration::ZERO,
        SyncFailure::RuntimeUnavailable(_)
        | SyncFailure::NetworkNotReady(_)
        | SyncFailure::Unobservable(_) => jittered(WHILE_AWAY, spread),
        SyncFailure::Busy(_) => jittered(WHILE_BUSY, spread),
        SyncFailure::MountFailed { wait, .. } => *wait,
        SyncFailure::Rejected(_) | SyncFailure::Failed { .. } => jittered(AFTER_FAILURE, spread),
    }
}

fn jittered(base: Duration, spread: f64) -> Duration {
    base.mul_f64(1.0 + spread.clamp(0.0, 1.0) * 0.5)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(100);

    #[test]
    fn an_announced_time_replaces_the_period_and_never_exceeds_it() {
        let minute = Duration::from_secs(60);
        let soon = NOW.after(Duration::from_secs(7));
        assert_eq!(after_success(minute, Some(soon), NOW, 0.9), Duration::from_secs(7));
        assert_eq!(after_success(minute, Some(Timestamp::ZERO), NOW, 0.9), Duration::ZERO);
        let late = NOW.after(Duration::from_secs(500));
        assert_eq!(after_success(minute, Some(late), NOW, 0.9), minute);
    }

    #[test]
    fn a_runtime_that_is_away_is_tried_sooner() {
        assert_eq!(after_failure(&SyncFailure::RuntimeUnavailable(String::new()), 0.0), WHILE_AWAY);
        let failed = SyncFailure::Failed { message: String::new(), problems: Default::default() };
        assert_eq!(after_failure(&failed, 1.0), Duration::from_secs(15));
    }

    proptest! {
        #[test]
        fn jitter_adds_half_at_most(spread in 0.0f64..=1.0) {
            let wait = after_success(Duration::from_secs(60), None, NOW, spread);
            prop_assert!(wait >= Duration::from_secs(60) && wait <= Duration::from_secs(90));
        }
    }
}
