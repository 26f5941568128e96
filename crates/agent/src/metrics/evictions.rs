//! Evictions.

use std::time::Duration;

use super::series::{Counter, DEFAULT_BUCKETS, Family, Histogram};

metrics_group! {
    EvictionMetrics {
        evictions: Family<Counter, 1> = Family::new(["eviction_signal"]),
            "kubelet_evictions", "Evicted pods, by signal or exceeded limit";
        stats_age: Family<Histogram, 1> = Family::histograms(["eviction_signal"], DEFAULT_BUCKETS),
            "kubelet_eviction_stats_age_seconds", "Age of the statistics that led to an eviction";
    }
}

impl EvictionMetrics {
    pub fn evicted(&self, signal: &str) {
        self.evictions.get([signal]).inc();
    }

    pub fn acted_on(&self, signal: &str, age: Duration) {
        self.stats_age.get([signal]).observe(age.as_secs_f64());
    }
}
