use std::hash::{BuildHasher, RandomState};

use crate::jitter::fraction;

/// Returns a random number in `0..1` for jitter. It comes from the seed of the standard library's hash maps, which is
/// good enough to keep nodes apart; it is not for secrets.
#[must_use]
pub fn random() -> f64 {
    fraction(RandomState::new().hash_one(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_cover_both_halves() {
        let numbers: Vec<f64> = (0..100).map(|_| random()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        assert!(numbers.iter().any(|number| *number < 0.5) && numbers.iter().any(|number| *number > 0.5));
    }
}
