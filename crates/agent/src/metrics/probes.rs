//! Probes.

use std::time::Duration;

use model::{Pod, ProbeKind, ProbeResult};

use super::page::{Format, Page};
use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

metrics_group! {
    ProbeMetrics {
        total: Family<Counter, 6> =
            Family::new(["container", "namespace", "pod", "pod_uid", "probe_type", "result"]),
            "prober_probe_total", "Probe results by container";
        duration: Family<Histogram, 4> =
            Family::histograms(["container", "namespace", "pod", "probe_type"], DEFAULT_BUCKETS),
            "prober_probe_duration_seconds", "Duration of successful probes";
        pub process_start: Gauge = Gauge::default(),
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds";
    }
}

impl ProbeMetrics {
    /// Counts a result. Only successful probes count for the duration.
    pub fn checked(&self, pod: &Pod, container: &str, kind: ProbeKind, answer: (ProbeResult, Duration)) {
        let (result, took) = answer;
        self.total.inc(total(pod, container, kind, result));
        if result == ProbeResult::Success {
            self.duration.observe(duration(pod, container, kind), took);
        }
    }

    /// Removes the series of a probe.
    pub fn forget(&self, pod: &Pod, container: &str, kind: ProbeKind) {
        for result in [ProbeResult::Success, ProbeResult::Failure] {
            self.total.remove(total(pod, container, kind, result));
        }
        self.duration.remove(duration(pod, container, kind));
    }

    #[must_use]
    pub fn encode(&self, format: Format) -> String {
        let mut page = Page::new(format);
        self.write(&mut page);
        page.into_text()
    }
}

fn total<'a>(pod: &'a Pod, container: &'a str, kind: ProbeKind, result: ProbeResult) -> [&'a str; 6] {
    let result = match result {
        ProbeResult::Success => "successful",
        ProbeResult::Failure => "failed",
    };
    [container, pod.namespace(), pod.name(), pod.uid.as_str(), kind.as_str(), result]
}

fn duration<'a>(pod: &'a Pod, container: &'a str, kind: ProbeKind) -> [&'a str; 4] {
    [container, pod.namespace(), pod.name(), kind.as_str()]
}
