//! Pods and their workers.

use super::bounds::{STARTUP, STATUS_SYNC};
use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram, exponential};

const CONTAINERS: [f64; 5] = exponential(1.0, 2.0);

metrics_group! {
    PodMetrics {
        pub worker_duration: Family<Histogram, 1> = Family::histograms(["operation_type"], DEFAULT_BUCKETS),
            "kubelet_pod_worker_duration_seconds", "Duration of one sync of a pod, by type";
        watch_events_dropped: Counter = Counter::default(),
            "kubelet_pod_watch_events_dropped_total",
            "Always 0: a slow client of the Pods API gets the latest state of each pod";
        pub worker_start_duration: Histogram = Histogram::new(DEFAULT_BUCKETS),
            "kubelet_pod_worker_start_duration_seconds", "Time from the first observation of a pod to the start of its worker";
        pub start_duration: Histogram = Histogram::new(STARTUP),
            "kubelet_pod_start_duration_seconds", "Time from the first observation of a pod until its containers run";
        pub start_sli_duration: Histogram = Histogram::new(STARTUP),
            "kubelet_pod_start_sli_duration_seconds",
            "Time from the creation of a pod until its containers run, without image pulls and init containers";
        pub start_total_duration: Histogram = Histogram::new(STARTUP),
            "kubelet_pod_start_total_duration_seconds", "Time from the creation of a pod until its containers run";
        pub first_network_start_sli: Gauge = Gauge::default(),
            "kubelet_first_network_pod_start_sli_duration_seconds",
            "Start duration of the first pod without host network, without image pulls and init containers";
        pub status_sync_duration: Histogram = Histogram::new(STATUS_SYNC),
            "kubelet_pod_status_sync_duration_seconds", "Time from a change of a pod's status until the API server has it";
        pub containers_per_pod: Histogram = Histogram::new(&CONTAINERS),
            "kubelet_containers_per_pod_count", "Regular containers per pod";
        restarted: Family<Counter, 1> = Family::new(["static"]),
            "kubelet_restarted_pods_total", "Pods that were created again with the same UID before the old one had ended";
        pub orphaned_runtime: Counter = Counter::default(),
            "kubelet_orphaned_runtime_pods_total", "Orphaned pods that were found in the runtime and killed";
        pub started: Counter = Counter::default(),
            "kubelet_started_pods_total", "Attempts to create a sandbox";
        pub start_errors: Counter = Counter::default(),
            "kubelet_started_pods_errors_total", "Failed attempts to create a sandbox";
        pub user_namespaced_started: Counter = Counter::default(),
            "kubelet_started_user_namespaced_pods_total", "Attempts to create a sandbox with a user namespace";
        pub user_namespaced_errors: Counter = Counter::default(),
            "kubelet_started_user_namespaced_pods_errors_total",
            "Failed attempts to create a sandbox with a user namespace";
        pub rejections: Family<Counter, 1> = Family::new(["reason"]),
            "kubelet_admission_rejections_total", "Rejected pods, by reason";
        pub preemptions: Family<Counter, 1> = Family::new(["preemption_signal"]),
            "kubelet_preemptions", "Preempted pods, by the missing resource";
        pub hook_fallbacks: Counter = Counter::default(),
            "kubelet_lifecycle_handler_http_fallbacks_total", "HTTPS lifecycle hooks that were answered in plain HTTP";
        pub sleeps_cut_short: Counter = Counter::default(),
            "kubelet_sleep_action_terminated_early_total", "Sleep hooks that were interrupted";
        pub orphan_folders: Gauge = Gauge::default(),
            "kubelet_orphan_pod_cleaned_volumes", "Orphaned pod folders that the last sweep found";
        pub orphan_folder_errors: Gauge = Gauge::default(),
            "kubelet_orphan_pod_cleaned_volumes_errors", "Orphaned pod folders that the last sweep failed to remove";
    }
}

impl PodMetrics {
    /// Shows zero before the first restart, like upstream.
    pub(super) fn show_restarts(&self) {
        for is_static in [true, false] {
            self.restarted.get([static_label(is_static)]);
        }
    }

    /// A pod was created again with the same UID.
    pub fn restarted(&self, is_static: bool) {
        self.restarted.inc([static_label(is_static)]);
    }
}

/// The value of the label `static`.
pub(crate) fn static_label(is_static: bool) -> &'static str {
    if is_static { "true" } else { "" }
}
