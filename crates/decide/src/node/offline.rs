//! Running cached pods without the API server.

use std::time::Duration;

use model::Timestamp;

/// Whether cached pods may run although the API server last confirmed them at `confirmed_at`; always without `max_age`.
pub fn may_run_unconfirmed(confirmed_at: Timestamp, now: Timestamp, max_age: Option<Duration>) -> bool {
    max_age.is_none_or(|limit| now.since(confirmed_at) <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_only_pods_older_than_limit() {
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
