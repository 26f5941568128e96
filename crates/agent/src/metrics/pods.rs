//! Pods and their workers.

use std::time::Duration;

use super::bounds::{STARTUP, STATUS_SYNC};
use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram, exponential};

const CONTAINERS: [f64; 5] = exponential(1.0, 2.0);

metrics_group! {
    /// Pods and their workers.
    PodMetrics {
        worker_duration: Family<Histogram, 1> = Family::histograms(["operation_type"], DEFAULT_BUCKETS),
            "kubelet_pod_worker_duration_seconds", "Time of one pass over a pod, by kind of pass";
        /// First sight of a pod → its worker starts.
        pub worker_start_duration: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_pod_worker_start_duration_seconds", "First sight of a pod to the start of its worker";
        /// First sight of a pod → all its containers run.
        pub start_duration: Histogram = Histogram::new(STARTUP),
            "kubelet_pod_start_duration_seconds", "First sight of a pod to its containers running";
        /// Creation of a pod → running, without pulls and init containers.
        pub start_sli_duration: Histogram = Histogram::new(STARTUP),
            "kubelet_pod_start_sli_duration_seconds",
            "Creation of a pod to its containers running, without the time of pulls and init containers";
        /// Creation of a pod → running.
        pub start_total_duration: Histogram = Histogram::new(STARTUP),
            "kubelet_pod_start_total_duration_seconds", "Creation of a pod to its containers running";
        /// The same without pulls and init containers, of the first pod with a network of its own.
        pub first_network_start_sli: Gauge = Gauge::default(),
            "kubelet_first_network_pod_start_sli_duration_seconds",
            "Start of the first pod with a network of its own, without the time of pulls and init containers";
        /// A status changed → the API server has it.
        pub status_sync_duration: Histogram = Histogram::new(STATUS_SYNC),
            "kubelet_pod_status_sync_duration_seconds", "Change of a pod's status to the API server having it";
        /// Regular containers of a pod.
        pub containers_per_pod: Histogram = Histogram::new(&CONTAINERS),
            "kubelet_containers_per_pod_count", "Regular containers of each pod whose work began";
        restarted: Family<Counter, 1> = Family::new(["static"]),
            "kubelet_restarted_pods_total", "Pods created again with the same UID while the old one ended";
        /// Pods found in the runtime that nobody wants.
        pub orphaned_runtime: Counter = Counter::default(),
            "kubelet_orphaned_runtime_pods_total", "Pods found in the runtime that nobody wants, and ended";
        /// Sandboxes that were tried to make.
        pub started: Counter = Counter::default(),
            "kubelet_started_pods_total", "Sandboxes that were tried to make";
        /// Sandboxes that could not be made.
        pub start_errors: Counter = Counter::default(),
            "kubelet_started_pods_errors_total", "Sandboxes that could not be made";
        /// Sandboxes with a user namespace that were tried to make.
        pub user_namespaced_started: Counter = Counter::default(),
            "kubelet_started_user_namespaced_pods_total", "Sandboxes with a user namespace that were tried to make";
        /// Sandboxes with a user namespace that could not be made.
        pub user_namespaced_errors: Counter = Counter::default(),
            "kubelet_started_user_namespaced_pods_errors_total",
            "Sandboxes with a user namespace that could not be made";
        rejections: Family<Counter, 1> = Family::new(["reason"]),
            "kubelet_admission_rejections_total", "Pods that were not let in, by reason";
        preemptions: Family<Counter, 1> = Family::new(["preemption_signal"]),
            "kubelet_preemptions", "Pods ended to make room for a critical one, by what was missing";
        /// Hooks that asked for HTTPS and were answered in plain HTTP.
        pub hook_fallbacks: Counter = Counter::default(),
            "kubelet_lifecycle_handler_http_fallbacks_total", "HTTPS hooks that were answered in plain HTTP";
        /// Sleep hooks that were cut short.
        pub sleeps_cut_short: Counter = Counter::default(),
            "kubelet_sleep_action_terminated_early_total", "Sleep hooks that were cut short";
        /// Folders of gone pods found by the last sweep.
        pub orphan_folders: Gauge = Gauge::default(),
            "kubelet_orphan_pod_cleaned_volumes", "Folders of gone pods found by the last sweep";
        /// Those of them that could not be removed.
        pub orphan_folder_errors: Gauge = Gauge::default(),
            "kubelet_orphan_pod_cleaned_volumes_errors", "Folders of gone pods that the last sweep could not remove";
    }
}

impl PodMetrics {
    /// One pass of a worker ended.
    pub fn pass_ended(&self, kind: &str, took: Duration) {
        self.worker_duration.get([kind]).observe(took.as_secs_f64());
    }

    /// Restarts are told before there is one, as upstream.
    pub(super) fn show_restarts(&self) {
        for is_static in [true, false] {
            self.restarted.get([static_label(is_static)]);
        }
    }

    /// A pod was created again with its UID.
    pub fn restarted(&self, is_static: bool) {
        self.restarted.get([static_label(is_static)]).inc();
    }

    /// A pod was not let in.
    pub fn rejected(&self, reason: &str) {
        self.rejections.get([reason]).inc();
    }

    /// A pod was ended to make room.
    pub fn preempted(&self, missing: &str) {
        self.preemptions.get([missing]).inc();
    }
}

/// The value of the label `static`.
pub(crate) fn static_label(is_static: bool) -> &'static str {
    if is_static { "true" } else { "" }
}
