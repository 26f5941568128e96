//! The content of `/configz`, `/statusz`, `/flagz` and `/debug`.

use std::sync::Arc;

use config::configuration::{API_VERSION, CgroupDriver as ConfiguredDriver, KIND};
use config::{Gate, KUBERNETES_VERSION, LoadedConfig};
use host::OwnProfiler;
use model::CgroupDriver;
use node_api::{ProfilingDeps, ZPagesDeps};
use ports::clock::{Clock, SystemClock};
use ports::host::profiler::Profiler;
use ports::telemetry::log_level::LogLevel;
use serde_json::{Value, json};

use crate::plan::node::count_cpus;
use crate::version::VERSION;

pub fn zpages(loaded: &LoadedConfig, driver: CgroupDriver) -> ZPagesDeps {
    ZPagesDeps {
        config: Arc::new(effective_config(loaded, driver)),
        flags: Arc::new(loaded.flag_values.clone()),
        version: KUBERNETES_VERSION.trim_start_matches('v').to_owned(),
        go_version: format!("none (podward {VERSION} is written in Rust)"),
        started_at: SystemClock.now(),
        clock: Arc::new(SystemClock),
        shows_status: loaded.gates.enabled(Gate::ComponentStatusz),
        shows_flags: loaded.gates.enabled(Gate::ComponentFlagz),
    }
}

pub fn profiling(loaded: &LoadedConfig, log_level: Arc<dyn LogLevel>) -> ProfilingDeps {
    let server = &loaded.config.server;
    ProfilingDeps {
        log_level: Some(log_level).filter(|_| server.enable_debug_flags_handler),
        profiles: server
            .enable_profiling_handler
            .then(|| Arc::new(OwnProfiler::default()) as Arc<dyn Profiler>),
        clock: Arc::new(SystemClock),
        command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
    }
}

/// The configuration in force, as a document that could be loaded again. Includes values that were only found at start.
fn effective_config(loaded: &LoadedConfig, driver: CgroupDriver) -> Value {
    let mut config = loaded.config.clone();
    config.cgroups.cgroup_driver = match driver {
        CgroupDriver::Cgroupfs => ConfiguredDriver::Cgroupfs,
        CgroupDriver::Systemd => ConfiguredDriver::Systemd,
    };
    let server = &mut config.server;
    if server.tls_cert_file.is_empty()
        && server.tls_private_key_file.is_empty()
        && !server.server_tls_bootstrap
    {
        let file = |name: &str| loaded.flags.cert_dir.join(name).display().to_string();
        (server.tls_cert_file, server.tls_private_key_file) = (file("kubelet.crt"), file("kubelet.key"));
    }
    let reservations = &mut config.reservations;
    if !reservations.reserved_system_cpus.is_empty() {
        reservations.kube_reserved.remove("cpu");
        let count = count_cpus(&reservations.reserved_system_cpus);
        reservations.system_reserved.insert("cpu".to_owned(), count.to_string());
    }
    let mut document = json!({"kind": KIND, "apiVersion": API_VERSION});
    if let (Some(document), Value::Object(fields)) = (document.as_object_mut(), config.to_json()) {
        document.extend(fields);
    }
    document
}
