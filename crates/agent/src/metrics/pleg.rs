//! How the runtime is observed.

use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

metrics_group! {
    /// How the runtime is observed.
    PlegMetrics {
        /// Time of a whole relist.
        pub relist_duration: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_pleg_relist_duration_seconds", "Time of a list of everything in the runtime";
        /// Time between two relists.
        pub relist_interval: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_pleg_relist_interval_seconds", "Time between two lists of everything in the runtime";
        /// Time of one pod's observation.
        pub pod_relist_duration: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_pleg_pod_relist_duration_seconds", "Time to look at one pod";
        /// Unix time of the last good relist.
        pub last_seen: Gauge = Gauge::default(),
            "kubelet_pleg_last_seen_seconds", "Unix time of the last good list";
        /// Events that nobody could take.
        pub discarded: Counter = Counter::default(),
            "kubelet_pleg_discard_events", "Events that were lost because the sync loop was full";
        /// Event streams opened.
        pub streams_opened: Counter = Counter::default(),
            "kubelet_evented_pleg_connection_success_count", "Event streams of the runtime that were opened";
        /// Event stream failures.
        pub stream_errors: Counter = Counter::default(),
            "kubelet_evented_pleg_connection_error_count", "Event streams of the runtime that failed";
        /// Event made → event received.
        pub event_latency: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_evented_pleg_connection_latency_seconds", "Time from the making of an event to its receipt";
        /// Container exits noticed through a process descriptor.
        pub exits_noticed: Counter = Counter::default(),
            "podward_pleg_exits_noticed_total", "Container exits noticed through a process descriptor";
        /// Pods that cannot be observed at the moment.
        pub unobservable_pods: Gauge = Gauge::default(),
            "podward_pleg_unobservable_pods", "Pods the runtime gives no answer for";
        mode: Family<Gauge, 1> = Family::new(["mode"]),
            "podward_pleg_mode", "How container state is learned (1 = in use): events or polling";
    }
}

impl PlegMetrics {
    /// How container state is learned.
    pub fn uses(&self, mode: &str) {
        for known in ["events", "polling"] {
            self.mode.get([known]).set(f64::from(u8::from(known == mode)));
        }
    }
}
