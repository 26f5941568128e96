//! Probes.

use std::time::Duration;

use model::{Pod, ProbeKind, ProbeVerdict};

use super::page::{Format, Page};
use super::series::{Counter, DEFAULT_BUCKETS, Family, Gauge, Histogram};

metrics_group! {
    /// The metrics of probes, which have a page of their own.
    ProbeMetrics {
        total: Family<Counter, 6> =
            Family::new(["container", "namespace", "pod", "pod_uid", "probe_type", "result"]),
            "prober_probe_total", "Answers of probes, by container and result";
        duration: Family<Histogram, 4> =
            Family::histograms(["container", "namespace", "pod", "probe_type"], DEFAULT_BUCKETS),
            "prober_probe_duration_seconds", "Time of probes that succeeded";
        /// Unix time of the agent's start.
        pub process_start: Gauge = Gauge::default(),
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds";
    }
}

impl ProbeMetrics {
    /// A check said something about a container. Only the time of good answers is kept.
    pub fn checked(&self, pod: &Pod, container: &str, kind: ProbeKind, answer: (ProbeVerdict, Duration)) {
        let (verdict, took) = answer;
        self.total.get(total(pod, container, kind, verdict)).inc();
        if verdict == ProbeVerdict::Success {
            self.duration.get(duration(pod, container, kind)).observe(took.as_secs_f64());
        }
    }

    /// A probe is over.
    pub fn forget(&self, pod: &Pod, container: &str, kind: ProbeKind) {
        for verdict in [ProbeVerdict::Success, ProbeVerdict::Failure] {
            self.total.remove(total(pod, container, kind, verdict));
        }
        self.duration.remove(duration(pod, container, kind));
    }

    /// The page.
    #[must_use]
    pub fn encode(&self, format: Format) -> String {
        let mut page = Page::new(format);
        self.write(&mut page);
        page.into_text()
    }
}

fn total<'a>(pod: &'a Pod, container: &'a str, kind: ProbeKind, verdict: ProbeVerdict) -> [&'a str; 6] {
    let result = match verdict {
        ProbeVerdict::Success => "successful",
        ProbeVerdict::Failure => "failed",
    };
    [container, pod.namespace(), pod.name(), pod.uid.as_str(), kind.as_str(), result]
}

fn duration<'a>(pod: &'a Pod, container: &'a str, kind: ProbeKind) -> [&'a str; 4] {
    [container, pod.namespace(), pod.name(), kind.as_str()]
}
