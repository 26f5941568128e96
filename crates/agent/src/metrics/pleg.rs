//! Observation of the runtime.

use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

metrics_group! {
    PlegMetrics {
        pub relist_duration: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_pleg_relist_duration_seconds", "Duration of a relist";
        pub relist_interval: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_pleg_relist_interval_seconds", "Time between two relists";
        pub pod_relist_duration: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_pleg_pod_relist_duration_seconds", "Duration of the observation of one pod";
        pub last_seen: Gauge = Gauge::default(),
            "kubelet_pleg_last_seen_seconds", "Unix time of the last successful relist";
        pub discarded: Counter = Counter::default(),
            "kubelet_pleg_discard_events", "Events that were dropped because the sync loop's queue was full";
        pub streams_opened: Counter = Counter::default(),
            "kubelet_evented_pleg_connection_success_count", "Opened event streams of the runtime";
        pub stream_errors: Counter = Counter::default(),
            "kubelet_evented_pleg_connection_error_count", "Failed event streams of the runtime";
        pub event_latency: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_evented_pleg_connection_latency_seconds", "Time from the creation of an event to its receipt";
        pub exits_noticed: Counter = Counter::default(),
            "podward_pleg_exits_noticed_total", "Container exits detected through a pidfd";
        pub unobservable_pods: Gauge = Gauge::default(),
            "podward_pleg_unobservable_pods", "Pods that cannot be observed";
        mode: Family<Gauge, 1> = Family::new(["mode"]),
            "podward_pleg_mode", "Source of container state (1 = in use): events or polling";
    }
}

impl PlegMetrics {
    pub fn uses(&self, mode: &str) {
        for known in ["events", "polling"] {
            self.mode.get([known]).set(f64::from(u8::from(known == mode)));
        }
    }
}
