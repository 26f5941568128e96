//! Metrics of the agent itself: version, feature gates, and resource use of its process.

use std::sync::Arc;

use ports::host::process_usage::ProcessUsage;

use crate::metrics::{Collect, Page};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGateState {
    pub name: String,
    /// `ALPHA`, `BETA`, `DEPRECATED`, or empty for a stable gate.
    pub stage: &'static str,
    pub enabled: bool,
}

pub struct AgentMetrics {
    /// The Kubernetes version that the agent corresponds to, such as `v1.36.4`.
    pub version: String,
    pub gates: Vec<FeatureGateState>,
    pub cgroup_version: u8,
    pub process: Arc<dyn ProcessUsage>,
}

impl Collect for AgentMetrics {
    fn collect(&self, page: &mut Page) {
        self.write_build(page);
        let about = ("kubernetes_feature_enabled", "Whether a feature gate is on");
        let gates = self
            .gates
            .iter()
            .map(|gate| ([gate.name.as_str(), gate.stage], f64::from(u8::from(gate.enabled))));
        page.gauges(about, ["name", "stage"], gates);
        let version = f64::from(self.cgroup_version);
        page.gauge("kubelet_cgroup_version", "Version of the cgroup hierarchy: 1 or 2", version);
        let about = ("kubelet_metrics_provider", "Provider whose format the container statistics have");
        page.gauges(about, ["provider"], [(["cadvisor"], 1.0)]);
        self.write_process(page);
    }
}

impl AgentMetrics {
    fn write_build(&self, page: &mut Page) {
        let mut numbers = self.version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let about =
            ("kubernetes_build_info", "The Kubernetes version that this agent corresponds to; always 1");
        page.gauges(
            about,
            ["compiler", "git_version", "major", "minor", "platform"],
            [(["rustc", &self.version, major, minor, PLATFORM], 1.0)],
        );
    }

    fn write_process(&self, page: &mut Page) {
        let Some(usage) = self.process.read() else { return };
        for (name, help, value) in [
            ("process_cpu_seconds_total", "CPU time of the process, in seconds", usage.cpu_seconds),
            (
                "process_network_receive_bytes_total",
                "Bytes received over the network of the process",
                usage.received_bytes as f64,
            ),
            (
                "process_network_transmit_bytes_total",
                "Bytes sent over the network of the process",
                usage.sent_bytes as f64,
            ),
        ] {
            page.counter(name, help, value);
        }
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Memory of the process in RAM", usage.resident_bytes as f64),
            ("process_virtual_memory_bytes", "Address space of the process", usage.virtual_bytes as f64),
            (
                "process_virtual_memory_max_bytes",
                "Limit of the address space of the process",
                usage.max_virtual_bytes as f64,
            ),
            ("process_open_fds", "Open file descriptors", usage.open_files as f64),
            ("process_max_fds", "Limit of open file descriptors", usage.max_open_files as f64),
            ("process_start_time_seconds", "Start of the process, as Unix time", usage.started),
        ] {
            page.gauge(name, help, value);
        }
    }
}

#[cfg(target_arch = "x86_64")]
const PLATFORM: &str = "linux/amd64";
#[cfg(target_arch = "aarch64")]
const PLATFORM: &str = "linux/arm64";
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const PLATFORM: &str = "linux";

#[cfg(test)]
mod tests {
    use ports::host::process_usage::ProcessNumbers;

    use super::*;
    use crate::metrics::Format;

    struct FixedUsage;

    impl ProcessUsage for FixedUsage {
        fn read(&self) -> Option<ProcessNumbers> {
            Some(ProcessNumbers { cpu_seconds: 1.5, open_files: 7, ..ProcessNumbers::default() })
        }
    }

    #[test]
    fn exports_version_gates_and_process_metrics() {
        let gate = |name: &str, stage, enabled| FeatureGateState { name: name.to_owned(), stage, enabled };
        let metrics = AgentMetrics {
            version: "v1.36.4".to_owned(),
            gates: vec![gate("EnvFiles", "BETA", true), gate("Old", "", false)],
            cgroup_version: 2,
            process: Arc::new(FixedUsage),
        };
        let mut page = Page::new(Format::Text);
        metrics.collect(&mut page);
        let text = page.into_text();
        for line in [
            "git_version=\"v1.36.4\",major=\"1\",minor=\"36\"",
            "kubernetes_feature_enabled{name=\"EnvFiles\",stage=\"BETA\"} 1\n",
            "kubernetes_feature_enabled{name=\"Old\",stage=\"\"} 0\n",
            "kubelet_cgroup_version 2\n",
            "kubelet_metrics_provider{provider=\"cadvisor\"} 1\n",
            "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.5\n",
            "process_open_fds 7\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
