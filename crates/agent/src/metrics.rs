//! The agent's own metrics, with upstream's names where upstream has them.

mod probes;

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

pub use probes::ProbeMetrics;

const DEFAULT_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Label `operation_type`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Operation {
    operation_type: String,
}

/// Label `container_state`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ContainerStateLabel {
    container_state: String,
}

/// Label `state`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StateLabel {
    state: String,
}

/// Label `mode`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ModeLabel {
    mode: String,
}

/// Label `image_size_in_bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ImageSizeLabel {
    image_size_in_bytes: String,
}

/// Label `reason`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    reason: String,
}

type HistogramFamily = Family<Operation, Histogram, fn() -> Histogram>;

/// All metrics. Cheap to update, encoded on demand.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    worker_duration: HistogramFamily,
    runtime_operations: Family<Operation, Counter>,
    runtime_errors: Family<Operation, Counter>,
    runtime_duration: HistogramFamily,
    /// Time of a whole relist.
    pub relist_duration: Histogram,
    /// Time between two relists.
    pub relist_interval: Histogram,
    /// Time of one pod's observation.
    pub pod_relist_duration: Histogram,
    /// Unix time of the last good relist.
    pub pleg_last_seen: Gauge<f64, AtomicU64>,
    /// Event streams opened.
    pub event_stream_opened: Counter,
    /// Event stream failures.
    pub event_stream_errors: Counter,
    /// Event made → event received.
    pub event_latency: Histogram,
    /// Container exits noticed through a process descriptor.
    pub exits_noticed: Counter,
    /// Pods that cannot be observed at the moment.
    pub unobservable_pods: Gauge,
    pleg_mode: Family<ModeLabel, Gauge>,
    /// Pods with a ready sandbox.
    pub running_pods: Gauge,
    running_containers: Family<ContainerStateLabel, Gauge>,
    /// Pods the sources want.
    pub desired_pods: Gauge,
    working_pods: Family<StateLabel, Gauge>,
    /// Pods created again with the same UID.
    pub restarted_pods: Counter,
    /// Pods found in the runtime that nobody wants.
    pub orphaned_runtime_pods: Counter,
    manifest_files: Family<StateLabel, Gauge>,
    /// Manifest files that could not be used, each time one is read.
    pub manifest_errors: Counter,
    /// First sight of a pod → its worker starts.
    pub worker_start_duration: Histogram,
    /// First sight of a pod → all its containers run.
    pub pod_start_duration: Histogram,
    image_pull_duration: Family<ImageSizeLabel, Histogram, fn() -> Histogram>,
    images_removed: Family<ReasonLabel, Counter>,
    /// Container logs that were rotated.
    pub logs_rotated: Counter,
    /// Probes, on a page of their own.
    pub probes: ProbeMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn default_histogram() -> Histogram {
    Histogram::new(DEFAULT_BUCKETS)
}

fn runtime_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.5, 14))
}

fn startup_histogram() -> Histogram {
    Histogram::new([
        0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0,
        360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
    ])
}

fn pull_histogram() -> Histogram {
    Histogram::new([
        1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0,
        1800.0, 2700.0, 3600.0,
    ])
}

impl Metrics {
    /// Registers everything.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::default()),
            worker_duration: Family::new_with_constructor(default_histogram),
            runtime_operations: Family::default(),
            runtime_errors: Family::default(),
            runtime_duration: Family::new_with_constructor(runtime_histogram),
            relist_duration: default_histogram(),
            relist_interval: default_histogram(),
            pod_relist_duration: default_histogram(),
            pleg_last_seen: Gauge::default(),
            event_stream_opened: Counter::default(),
            event_stream_errors: Counter::default(),
            event_latency: default_histogram(),
            exits_noticed: Counter::default(),
            unobservable_pods: Gauge::default(),
            pleg_mode: Family::default(),
            running_pods: Gauge::default(),
            running_containers: Family::default(),
            desired_pods: Gauge::default(),
            working_pods: Family::default(),
            restarted_pods: Counter::default(),
            orphaned_runtime_pods: Counter::default(),
            manifest_files: Family::default(),
            manifest_errors: Counter::default(),
            worker_start_duration: default_histogram(),
            pod_start_duration: startup_histogram(),
            image_pull_duration: Family::new_with_constructor(pull_histogram),
            images_removed: Family::default(),
            logs_rotated: Counter::default(),
            probes: ProbeMetrics::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let r = &mut *registry;
        let s = Unit::Seconds;
        r.register_with_unit(
            "kubelet_pod_worker_duration",
            "Time of one worker pass",
            s.clone(),
            self.worker_duration.clone(),
        );
        r.register_with_unit(
            "kubelet_pod_worker_start_duration",
            "First sight of a pod to its worker",
            s.clone(),
            self.worker_start_duration.clone(),
        );
        r.register_with_unit(
            "kubelet_pod_start_duration",
            "First sight of a pod to its containers running",
            s.clone(),
            self.pod_start_duration.clone(),
        );
        r.register("kubelet_runtime_operations", "CRI calls", self.runtime_operations.clone());
        r.register("kubelet_runtime_operations_errors", "CRI calls that failed", self.runtime_errors.clone());
        r.register_with_unit(
            "kubelet_runtime_operations_duration",
            "Time of CRI calls",
            s.clone(),
            self.runtime_duration.clone(),
        );
        r.register_with_unit(
            "kubelet_pleg_relist_duration",
            "Time of a relist",
            s.clone(),
            self.relist_duration.clone(),
        );
        r.register_with_unit(
            "kubelet_pleg_relist_interval",
            "Time between relists",
            s.clone(),
            self.relist_interval.clone(),
        );
        r.register_with_unit(
            "kubelet_pleg_pod_relist_duration",
            "Time to observe one pod",
            s.clone(),
            self.pod_relist_duration.clone(),
        );
        r.register_with_unit(
            "kubelet_pleg_last_seen",
            "Unix time of the last relist",
            s.clone(),
            self.pleg_last_seen.clone(),
        );
        r.register(
            "kubelet_evented_pleg_connection_success_count",
            "Event streams opened",
            self.event_stream_opened.clone(),
        );
        r.register(
            "kubelet_evented_pleg_connection_error_count",
            "Event stream failures",
            self.event_stream_errors.clone(),
        );
        r.register_with_unit(
            "kubelet_evented_pleg_connection_latency",
            "Event made to event received",
            s,
            self.event_latency.clone(),
        );
        r.register(
            "podward_pleg_mode",
            "How container state is learned (1 = in use): events or polling",
            self.pleg_mode.clone(),
        );
        r.register(
            "podward_pleg_exits_noticed",
            "Container exits noticed through a process descriptor",
            self.exits_noticed.clone(),
        );
        r.register(
            "podward_pleg_unobservable_pods",
            "Pods the runtime gives no answer for",
            self.unobservable_pods.clone(),
        );
        r.register("kubelet_running_pods", "Pods with a ready sandbox", self.running_pods.clone());
        r.register("kubelet_running_containers", "Containers by state", self.running_containers.clone());
        r.register("kubelet_desired_pods", "Pods the sources want", self.desired_pods.clone());
        r.register("kubelet_working_pods", "Pod workers by phase", self.working_pods.clone());
        r.register(
            "kubelet_restarted_pods",
            "Pods created again with the same UID",
            self.restarted_pods.clone(),
        );
        r.register(
            "kubelet_orphaned_runtime_pods",
            "Runtime pods nobody wanted",
            self.orphaned_runtime_pods.clone(),
        );
        r.register_with_unit(
            "kubelet_image_pull_duration",
            "Time of a pull with its waiting, by size of the image",
            Unit::Seconds,
            self.image_pull_duration.clone(),
        );
        r.register(
            "kubelet_image_garbage_collected",
            "Images removed by age or for space",
            self.images_removed.clone(),
        );
        r.register("podward_logs_rotated", "Container logs that were rotated", self.logs_rotated.clone());
        r.register("podward_manifest_files", "Manifest files by state", self.manifest_files.clone());
        r.register(
            "podward_manifest_errors",
            "Manifests that could not be used",
            self.manifest_errors.clone(),
        );
    }

    /// One worker pass ended.
    pub fn worker_pass(&self, kind: &str, took: Duration) {
        self.worker_duration
            .get_or_create(&Operation { operation_type: kind.to_owned() })
            .observe(took.as_secs_f64());
    }

    /// One runtime call ended.
    fn runtime_call(&self, operation: &str, took: Duration, failed: bool) {
        let label = Operation { operation_type: operation.to_owned() };
        self.runtime_operations.get_or_create(&label).inc();
        self.runtime_duration.get_or_create(&label).observe(took.as_secs_f64());
        if failed {
            self.runtime_errors.get_or_create(&label).inc();
        }
    }

    /// An image was pulled; `size` is upstream's word for its size.
    pub fn image_pulled(&self, size: &str, took: Duration) {
        let label = ImageSizeLabel { image_size_in_bytes: size.to_owned() };
        self.image_pull_duration.get_or_create(&label).observe(took.as_secs_f64());
    }

    /// An image was removed by the collector.
    pub fn image_removed(&self, reason: &str) {
        self.images_removed.get_or_create(&ReasonLabel { reason: reason.to_owned() }).inc();
    }

    /// Containers by state.
    pub fn containers(&self, state: &str, count: usize) {
        self.running_containers
            .get_or_create(&ContainerStateLabel { container_state: state.to_owned() })
            .set(to_gauge(count));
    }

    /// Workers by phase.
    pub fn workers(&self, phase: &str, count: usize) {
        self.working_pods.get_or_create(&StateLabel { state: phase.to_owned() }).set(to_gauge(count));
    }

    /// Manifest files by state.
    pub fn manifests(&self, state: &str, count: usize) {
        self.manifest_files.get_or_create(&StateLabel { state: state.to_owned() }).set(to_gauge(count));
    }

    /// How container state is learned.
    pub fn pleg_uses(&self, mode: &str) {
        for known in ["events", "polling"] {
            self.pleg_mode.get_or_create(&ModeLabel { mode: known.to_owned() }).set(i64::from(known == mode));
        }
    }

    /// The text form.
    #[must_use]
    pub fn encode(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

impl ports::call_meter::CallMeter for Metrics {
    fn call_ended(&self, operation: &'static str, took: Duration, failed: bool) {
        self.runtime_call(operation, took, failed);
    }
}

/// A count as a gauge value.
#[must_use]
pub fn to_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
