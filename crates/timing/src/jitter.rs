//! The random part of a delay. Randomness is a number from 0 to 1 that the caller passes; a number outside is clamped.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Returns `base` plus up to `fraction` of it.
#[must_use]
pub fn jitter(base: Duration, fraction: f64, random: f64) -> Duration {
    base.saturating_add(times(base, fraction * random.clamp(0.0, 1.0)))
}

/// Returns a part of `max`.
#[must_use]
pub fn up_to(max: Duration, random: f64) -> Duration {
    times(max, random.clamp(0.0, 1.0))
}

/// Returns a number in `0..1` that depends on `key` only, for jitter that must be reproducible: the same token or pod
/// gets the same delay each time it is computed.
#[must_use]
pub fn fraction_of<K: Hash + ?Sized>(key: &K) -> f64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    fraction(hasher.finish())
}

/// Maps the high half of a hash to `0..1`.
pub(crate) fn fraction(hash: u64) -> f64 {
    const RANGE: f64 = 4_294_967_296.0;
    f64::from(u32::try_from(hash >> 32).unwrap_or_default()) / RANGE
}

/// Zero for a factor that is not a number or makes the duration too long to represent.
fn times(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn adds_the_given_fraction_at_most() {
        assert_eq!(jitter(SECOND * 10, 0.5, 0.0), SECOND * 10);
        assert_eq!(jitter(SECOND * 10, 0.5, 1.0), SECOND * 15);
        assert_eq!(jitter(SECOND * 10, 0.5, 7.0), SECOND * 15);
        assert_eq!(jitter(SECOND * 10, 0.5, -1.0), SECOND * 10);
        assert_eq!(jitter(SECOND * 10, 0.5, f64::NAN), SECOND * 10);
        assert_eq!(up_to(SECOND * 10, 0.5), SECOND * 5);
        assert_eq!(up_to(SECOND * 10, 2.0), SECOND * 10);
    }

    #[test]
    fn longest_duration_stays_as_it_is() {
        assert_eq!(jitter(Duration::MAX, 1e9, 1.0), Duration::MAX);
    }

    #[test]
    fn fractions_of_different_keys_are_spread_evenly() {
        let fractions: Vec<f64> = (0..100).map(|n| fraction_of(&(format!("node-{n}"), 5))).collect();
        assert!(fractions.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        assert!(fractions.iter().filter(|fraction| **fraction < 0.5).count() > 20);
        assert!(fractions.iter().filter(|fraction| **fraction > 0.5).count() > 20);
        assert_eq!(fraction_of("same"), fraction_of("same"));
    }

    proptest! {
        #[test]
        fn result_is_between_base_and_base_plus_fraction(
            millis in 0u64..1 << 40,
            fraction in 0.0f64..=2.0,
            random in 0.0f64..=1.0,
        ) {
            let base = Duration::from_millis(millis);
            let jittered = jitter(base, fraction, random);
            // One microsecond for the rounding of long durations.
            let max = base.mul_f64(1.0 + fraction) + Duration::from_micros(1);
            prop_assert!(jittered >= base && jittered <= max, "{jittered:?}");
        }
    }
}
