use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes ids, and takes traces by their ids.
#[derive(Debug)]
pub(crate) struct Sampler {
    per_million: u32,
    /// Keyed by the system's randomness; with a counter its hashes are ids that nobody can guess and that never repeat.
    random: RandomState,
    made: AtomicU64,
}

impl Sampler {
    pub(crate) fn new(per_million: u32) -> Self {
        Self { per_million, random: RandomState::new(), made: AtomicU64::new(0) }
    }

    /// A new trace, if it is taken.
    pub(crate) fn trace(&self) -> Option<[u8; 16]> {
        let low = self.number();
        let taken = low % 1_000_000 < u64::from(self.per_million);
        let id = (u128::from(self.number()) << 64) | u128::from(low);
        taken.then(|| id.to_be_bytes())
    }

    /// The id of a new span.
    pub(crate) fn span(&self) -> [u8; 8] {
        self.number().to_be_bytes()
    }

    /// Never 0, which stands for no id.
    fn number(&self) -> u64 {
        self.random.hash_one(self.made.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept() {
        let taken = |per_million| {
            let sampler = Sampler::new(per_million);
            (0..10_000).filter(|_| sampler.trace().is_some()).count()
        };
        assert_eq!(taken(0), 0);
        assert_eq!(taken(1_000_000), 10_000);
        assert!((4_000..6_000).contains(&taken(500_000)));
    }

    #[test]
    fn ids_differ() {
        let sampler = Sampler::new(1_000_000);
        let ids: std::collections::HashSet<_> = (0..1_000).map(|_| sampler.span()).collect();
        assert_eq!(ids.len(), 1_000);
    }
}
