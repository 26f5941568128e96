//! What the agent is and what its process uses, read when somebody asks.

use std::sync::Arc;

use ports::process_usage::ProcessUsage;

use crate::metrics::{Collect, Page};

/// A feature gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateFact {
    /// Its name.
    pub name: String,
    /// `ALPHA`, `BETA`, `DEPRECATED`, or nothing for one that is done.
    pub stage: &'static str,
    /// Whether it is on.
    pub enabled: bool,
}

/// What does not change while the agent runs, and its process.
pub struct AgentFacts {
    /// The Kubernetes version that it stands for, such as `v1.36.4`.
    pub version: String,
    /// Feature gates.
    pub gates: Vec<GateFact>,
    /// 1 or 2.
    pub cgroup_version: u8,
    /// The process.
    pub process: Arc<dyn ProcessUsage>,
}

impl Collect for AgentFacts {
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
        let about = ("kubelet_metrics_provider", "Whose form the statistics of containers have");
        page.gauges(about, ["provider"], [(["cadvisor"], 1.0)]);
        self.write_process(page);
    }
}

impl AgentFacts {
    fn write_build(&self, page: &mut Page) {
        let mut numbers = self.version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let about = ("kubernetes_build_info", "The Kubernetes version that this agent stands for; always 1");
        page.gauges(
            about,
            ["compiler", "git_version", "major", "minor", "platform"],
            [(["rustc", &self.version, major, minor, PLATFORM], 1.0)],
        );
    }

    fn write_process(&self, page: &mut Page) {
        let Some(own) = self.process.read() else { return };
        let cpu = ("process_cpu_seconds_total", "CPU time of the process, in seconds");
        page.counters(cpu, [], [([], own.cpu_seconds)]);
        let received =
            ("process_network_receive_bytes_total", "Bytes that came in by the network of the process");
        page.counters(received, [], [([], own.received_bytes as f64)]);
        let sent =
            ("process_network_transmit_bytes_total", "Bytes that went out by the network of the process");
        page.counters(sent, [], [([], own.sent_bytes as f64)]);
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Memory of the process in RAM", own.resident_bytes as f64),
            ("process_virtual_memory_bytes", "Address space of the process", own.virtual_bytes as f64),
            (
                "process_virtual_memory_max_bytes",
                "Address space that the process may have",
                own.max_virtual_bytes as f64,
            ),
            ("process_open_fds", "Open file descriptors", own.open_files as f64),
            ("process_max_fds", "Open file descriptors that the process may have", own.max_open_files as f64),
            ("process_start_time_seconds", "Start of the process, as Unix time", own.started),
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
    use ports::process_usage::ProcessNumbers;

    use super::*;
    use crate::metrics::Format;

    struct Fixed;

    impl ProcessUsage for Fixed {
        fn read(&self) -> Option<ProcessNumbers> {
            Some(ProcessNumbers { cpu_seconds: 1.5, open_files: 7, ..ProcessNumbers::default() })
        }
    }

    #[test]
    fn the_agent_tells_what_it_is() {
        let gate = |name: &str, stage, enabled| GateFact { name: name.to_owned(), stage, enabled };
        let facts = AgentFacts {
            version: "v1.36.4".to_owned(),
            gates: vec![gate("EnvFiles", "BETA", true), gate("Old", "", false)],
            cgroup_version: 2,
            process: Arc::new(Fixed),
        };
        let mut page = Page::new(Format::Text);
        facts.collect(&mut page);
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
