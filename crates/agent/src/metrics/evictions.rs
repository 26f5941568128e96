//! Evictions.

use super::series::{Counter, DEFAULT_BUCKETS, Family, Histogram};

metrics_group! {
    EvictionMetrics {
        pub evictions: Family<Counter, 1> = Family::new(["eviction_signal"]),
            "kubelet_evictions", "Evicted pods, by signal or exceeded limit";
        pub stats_age: Family<Histogram, 1> = Family::histograms(["eviction_signal"], DEFAULT_BUCKETS),
            "kubelet_eviction_stats_age_seconds", "Age of the statistics that led to an eviction";
    }
}
