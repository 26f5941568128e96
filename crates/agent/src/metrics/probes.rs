use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::{Pod, ProbeKind, ProbeVerdict};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Labels of `prober_probe_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TotalLabels {
    probe_type: &'static str,
    result: &'static str,
    container: String,
    pod: String,
    namespace: String,
    pod_uid: String,
}

/// Labels of `prober_probe_duration_seconds`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    probe_type: &'static str,
    container: String,
    pod: String,
    namespace: String,
}

/// The metrics of probes, which have a page of their own.
#[derive(Debug)]
pub struct ProbeMetrics {
    registry: Mutex<Registry>,
    total: Family<TotalLabels, Counter>,
    duration: Family<DurationLabels, Histogram, fn() -> Histogram>,
    /// Unix time of the agent's start.
    pub process_start: Gauge<f64, std::sync::atomic::AtomicU64>,
}

impl Default for ProbeMetrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::default(),
            total: Family::default(),
            duration: Family::new_with_constructor(super::default_histogram),
            process_start: Gauge::default(),
        };
        let mut registry = metrics.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register(
            "prober_probe",
            "Cumulative number of a liveness, readiness or startup probe for a container by result",
            metrics.total.clone(),
        );
        registry.register_with_unit(
            "prober_probe_duration",
            "Duration in seconds for a probe response",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register_with_unit(
            "process_start_time",
            "Start time of the process since unix epoch in seconds",
            Unit::Seconds,
            metrics.process_start.clone(),
        );
        drop(registry);
        metrics
    }
}

impl ProbeMetrics {
    /// A check said something about a container. Only the time of good answers is kept.
    pub fn checked(&self, pod: &Pod, container: &str, kind: ProbeKind, answer: (ProbeVerdict, Duration)) {
        let (verdict, took) = answer;
        self.total.get_or_create(&total(pod, container, kind, verdict)).inc();
        if verdict == ProbeVerdict::Success {
            self.duration.get_or_create(&duration(pod, container, kind)).observe(took.as_secs_f64());
        }
    }

    /// A probe is over.
    pub fn forget(&self, pod: &Pod, container: &str, kind: ProbeKind) {
        for verdict in [ProbeVerdict::Success, ProbeVerdict::Failure] {
            self.total.remove(&total(pod, container, kind, verdict));
        }
        self.duration.remove(&duration(pod, container, kind));
    }

    /// The text form.
    #[must_use]
    pub fn encode(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

fn total(pod: &Pod, container: &str, kind: ProbeKind, verdict: ProbeVerdict) -> TotalLabels {
    TotalLabels {
        probe_type: kind.as_str(),
        result: match verdict {
            ProbeVerdict::Success => "successful",
            ProbeVerdict::Failure => "failed",
        },
        container: container.to_owned(),
        pod: pod.name().to_owned(),
        namespace: pod.namespace().to_owned(),
        pod_uid: pod.uid.to_string(),
    }
}

fn duration(pod: &Pod, container: &str, kind: ProbeKind) -> DurationLabels {
    DurationLabels {
        probe_type: kind.as_str(),
        container: container.to_owned(),
        pod: pod.name().to_owned(),
        namespace: pod.namespace().to_owned(),
    }
}
