//! Pods that had to go.

use std::time::Duration;

use super::series::{Counter, DEFAULT_BUCKETS, Family, Histogram};

metrics_group! {
    /// Pods that had to go.
    EvictionMetrics {
        evictions: Family<Counter, 1> = Family::new(["eviction_signal"]),
            "kubelet_evictions", "Pods that had to go, by what ran short or which limit they broke";
        stats_age: Family<Histogram, 1> = Family::histograms(["eviction_signal"], DEFAULT_BUCKETS),
            "kubelet_eviction_stats_age_seconds", "Age of what was measured when a pod had to go for it";
    }
}

impl EvictionMetrics {
    /// A pod had to go.
    pub fn evicted(&self, signal: &str) {
        self.evictions.get([signal]).inc();
    }

    /// Something that was measured so long ago is acted on.
    pub fn acted_on(&self, signal: &str, age: Duration) {
        self.stats_age.get([signal]).observe(age.as_secs_f64());
    }
}
