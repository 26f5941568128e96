//! The delay before the next sync of a pod.

use std::time::Duration;

use model::{SyncFailure, Timestamp};
use timing::jitter;

/// Largest random part of a delay, as a fraction of it.
const JITTER: f64 = 0.5;

/// Before jitter, as the two below.
const FAILURE_DELAY: Duration = Duration::from_secs(10);
/// While the runtime still works on an earlier call.
const RUNTIME_BUSY_DELAY: Duration = Duration::from_millis(200);
/// While the runtime or its network is unavailable.
const RUNTIME_UNAVAILABLE_DELAY: Duration = Duration::from_secs(1);

/// The delay after a successful sync. `random` is a number from 0 to 1.
pub fn delay_after_success(
    sync_frequency: Duration,
    retry_at: Option<Timestamp>,
    now: Timestamp,
    random: f64,
) -> Duration {
    match retry_at {
        Some(at) => at.since(now).min(sync_frequency),
        None => jitter(sync_frequency, JITTER, random),
    }
}

pub fn delay_after_failure(failure: &SyncFailure, random: f64) -> Duration {
    match failure {
        SyncFailure::Interrupted => Duration::ZERO,
        SyncFailure::RuntimeUnavailable(_)
        | SyncFailure::NetworkNotReady(_)
        | SyncFailure::Unobservable(_) => jitter(RUNTIME_UNAVAILABLE_DELAY, JITTER, random),
        SyncFailure::Busy(_) => jitter(RUNTIME_BUSY_DELAY, JITTER, random),
        SyncFailure::MountFailed { wait, .. } => *wait,
        SyncFailure::Rejected(_) | SyncFailure::Failed { .. } => jitter(FAILURE_DELAY, JITTER, random),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(100);

    #[test]
    fn retry_time_replaces_the_period_and_never_exceeds_it() {
        let minute = Duration::from_secs(60);
        let soon = NOW.after(Duration::from_secs(7));
        assert_eq!(delay_after_success(minute, Some(soon), NOW, 0.9), Duration::from_secs(7));
        assert_eq!(delay_after_success(minute, Some(Timestamp::ZERO), NOW, 0.9), Duration::ZERO);
        let late = NOW.after(Duration::from_secs(500));
        assert_eq!(delay_after_success(minute, Some(late), NOW, 0.9), minute);
    }

    #[test]
    fn unavailable_runtime_is_retried_sooner() {
        assert_eq!(
            delay_after_failure(&SyncFailure::RuntimeUnavailable(String::new()), 0.0),
            RUNTIME_UNAVAILABLE_DELAY
        );
        let failed = SyncFailure::Failed { message: String::new(), problems: Default::default() };
        assert_eq!(delay_after_failure(&failed, 1.0), Duration::from_secs(15));
    }

    proptest! {
        #[test]
        fn jitter_adds_at_most_half(random in 0.0f64..=1.0) {
            let wait = delay_after_success(Duration::from_secs(60), None, NOW, random);
            prop_assert!(wait >= Duration::from_secs(60) && wait <= Duration::from_secs(90));
        }
    }
}
