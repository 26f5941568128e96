//! Starting without the API server.

use std::time::Duration;

use model::Timestamp;

/// Whether pods that the API server last confirmed at a time may be run without it; without a limit they always may.
#[must_use]
pub fn may_run_unconfirmed(confirmed_at: Timestamp, now: Timestamp, max_age: Option<Duration>) -> bool {
    max_age.is_none_or(|limit| now.since(confirmed_at) <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_that_are_too_old_stay_away() {
        let hour = Some(Duration::from_secs(3600));
        for (age, limit, expected) in
            [(3600, hour, true), (3601, hour, false), (1 << 30, None, true), (-5, hour, true)]
        {
            let now = Timestamp::from_secs(2 << 30);
            let confirmed_at = Timestamp::from_secs((2 << 30) - age);
            assert_eq!(may_run_unconfirmed(confirmed_at, now, limit), expected, "{age} {limit:?}");
        }
    }
}
