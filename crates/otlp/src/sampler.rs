use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// Generates ids and samples traces.
#[derive(Debug)]
pub(crate) struct Sampler {
    per_million: u32,
    /// Randomly keyed. Hashes of a counter are unpredictable ids.
    random: RandomState,
    counter: AtomicU64,
}

impl Sampler {
    pub(crate) fn new(per_million: u32) -> Self {
        Self { per_million, random: RandomState::new(), counter: AtomicU64::new(0) }
    }

    /// Returns the id of a new trace if it is sampled.
    pub(crate) fn new_trace_id(&self) -> Option<[u8; 16]> {
        let low = self.random_id();
        let is_sampled = low % 1_000_000 < u64::from(self.per_million);
        let id = (u128::from(self.random_id()) << 64) | u128::from(low);
        is_sampled.then(|| id.to_be_bytes())
    }

    pub(crate) fn new_span_id(&self) -> [u8; 8] {
        self.random_id().to_be_bytes()
    }

    /// Never returns 0, which is not a valid id.
    fn random_id(&self) -> u64 {
        self.random.hash_one(self.counter.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_at_the_configured_rate() {
        let sampled = |per_million| {
            let sampler = Sampler::new(per_million);
            (0..10_000).filter(|_| sampler.new_trace_id().is_some()).count()
        };
        assert_eq!(sampled(0), 0);
        assert_eq!(sampled(1_000_000), 10_000);
        assert!((4_000..6_000).contains(&sampled(500_000)));
    }

    #[test]
    fn span_ids_are_unique() {
        let sampler = Sampler::new(1_000_000);
        let ids: std::collections::HashSet<_> = (0..1_000).map(|_| sampler.new_span_id()).collect();
        assert_eq!(ids.len(), 1_000);
    }
}
