//! The first calls to the container runtime: version, cgroup driver, features.

use std::sync::Arc;
use std::time::Duration;

use agent::metrics::Metrics;
use anyhow::Context;
use config::{Gate, LoadedConfig};
use cri::{CriClient, Endpoint};
use model::CgroupDriver;
use ports::runtime::{Runtime, RuntimeErrorKind};
use tonic::transport::Channel;

use super::faults::injected_faults;
use super::stop::Stop;
use crate::pod_cidr;

/// A client of the configured runtime, or of the one inside.
pub(super) fn connect(
    loaded: &LoadedConfig,
    inside: Option<Channel>,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Arc<dyn Runtime>> {
    let images = &loaded.config.images;
    let (channel, image_channel) = match inside {
        Some(channel) => (channel.clone(), channel),
        None => configured_channels(loaded)?,
    };
    let timeout = images.runtime_request_timeout.to_std();
    let client = match injected_faults(loaded)? {
        Some(faults) => CriClient::with_faults(channel, image_channel, timeout, &faults),
        None => CriClient::from_channels(channel, image_channel, timeout),
    };
    let client = client.with_meter(metrics.clone());
    let client = match loaded.config.api_client.tracing {
        Some(_) => client.with_trace_context(otlp::trace_parent_of),
        None => client,
    };
    Ok(Arc::new(match loaded.gates.enabled(Gate::CRIListStreaming) {
        true => client.with_list_streaming(),
        false => client,
    }))
}

fn configured_channels(loaded: &LoadedConfig) -> anyhow::Result<(Channel, Channel)> {
    let images = &loaded.config.images;
    let endpoint: Endpoint = images.container_runtime_endpoint.parse().context("containerRuntimeEndpoint")?;
    let image_endpoint: Endpoint = match images.image_service_endpoint.as_str() {
        "" => endpoint.clone(),
        other => other.parse().context("imageServiceEndpoint")?,
    };
    let channel = cri::connect(&endpoint);
    let image_channel =
        if image_endpoint == endpoint { channel.clone() } else { cri::connect(&image_endpoint) };
    Ok((channel, image_channel))
}

pub(super) struct RuntimeFacts {
    pub(super) runtime_name: String,
    pub(super) driver: CgroupDriver,
    /// Declared features that depend on the runtime.
    pub(super) features: Vec<&'static str>,
}

/// Waits for the runtime and reads its name, cgroup driver and features. `None` when the agent is stopped meanwhile.
pub(super) async fn handshake(
    runtime: &dyn Runtime,
    loaded: &LoadedConfig,
    metrics: &Metrics,
    stop: &mut Stop,
) -> anyhow::Result<Option<RuntimeFacts>> {
    let facts = async {
        let runtime_name = wait_for_runtime(runtime, loaded).await;
        let driver = cgroup_driver(runtime, loaded, metrics).await;
        pod_cidr::set_pod_cidr(runtime, &loaded.config.node.pod_cidr).await;
        RuntimeFacts { runtime_name, driver, features: runtime_features(runtime, loaded).await }
    };
    // A runtime that accepts a call and never answers delays each of these until its timeout.
    tokio::select! {
        name = stop.next() => {
            tracing::info!(signal = name, "stopping");
            Ok(None)
        }
        facts = facts => Ok(Some(facts)),
    }
}

async fn wait_for_runtime(runtime: &dyn Runtime, loaded: &LoadedConfig) -> String {
    let mut logged = false;
    let version = loop {
        match runtime.version().await {
            Ok(version) => break version,
            Err(error) => {
                if !std::mem::replace(&mut logged, true) {
                    tracing::error!(endpoint = %loaded.config.images.container_runtime_endpoint, %error, "container runtime does not answer, waiting for it");
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    tracing::info!(runtime = %version.name, version = %version.version, "container runtime found");
    version.name
}

/// The enabled features that the runtime supports. Read once, because declared features do not change while the agent runs.
async fn runtime_features(runtime: &dyn Runtime, loaded: &LoadedConfig) -> Vec<&'static str> {
    if !loaded.gates.enabled(Gate::UserNamespacesHostNetworkSupport) {
        return Vec::new();
    }
    match runtime.conditions().await {
        Ok(conditions) if conditions.user_namespaces_host_network => vec!["UserNamespacesHostNetworkSupport"],
        Ok(_) => Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "failed to read from the runtime whether host-network pods can have user namespaces, assuming not");
            Vec::new()
        }
    }
}

/// The cgroup driver that the runtime reports, or else the configured one.
async fn cgroup_driver(runtime: &dyn Runtime, loaded: &LoadedConfig, metrics: &Metrics) -> CgroupDriver {
    let configured = match loaded.config.cgroups.cgroup_driver {
        config::configuration::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
        config::configuration::CgroupDriver::Systemd => CgroupDriver::Systemd,
    };
    for _ in 0..3 {
        match runtime.cgroup_driver().await {
            Ok(driver) => return driver,
            Err(error) if error.kind == RuntimeErrorKind::Unimplemented => {
                metrics.runtime.lacks_config();
                tracing::info!(
                    cgroup_driver = ?configured,
                    "the runtime does not report its cgroup driver, using cgroupDriver of the configuration; it must match \
                     the runtime (containerd: systemd if config.toml has SystemdCgroup = true)"
                );
                break;
            }
            Err(error) => {
                tracing::warn!(%error, "failed to read the cgroup driver from the runtime, retrying");
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    configured
}

#[cfg(test)]
mod tests {
    use config::{CgroupVersion, Environment, Invocation, load};

    use super::super::stop::stop_signals;
    use super::*;

    #[tokio::test]
    async fn stop_interrupts_a_runtime_that_never_answers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cri.sock");
        let _silent = tokio::net::UnixListener::bind(&path).unwrap();
        let channel = cri::connect(&format!("unix://{}", path.display()).parse().unwrap());
        let runtime = CriClient::from_channels(channel.clone(), channel, Duration::from_secs(120));
        let environment =
            Environment { working_directory: folder.path().to_owned(), cgroup: CgroupVersion::Unknown };
        let Ok(Invocation::Run(loaded)) = load(&[], &environment) else { panic!("not a run invocation") };
        let mut stop = stop_signals().unwrap();
        stop.contention = Some(Box::pin(tokio::time::sleep(Duration::from_millis(100))));
        let metrics = Metrics::new();
        let handshake_result = handshake(&runtime, &loaded, &metrics, &mut stop);
        let handshake_result = tokio::time::timeout(Duration::from_secs(20), handshake_result).await;
        assert!(handshake_result.expect("it stops").unwrap().is_none());
    }

    fn loaded(arguments: &[&str]) -> LoadedConfig {
        let environment = Environment { working_directory: "/".into(), cgroup: CgroupVersion::Unknown };
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let Ok(Invocation::Run(loaded)) = load(&arguments, &environment) else {
            panic!("not a run invocation")
        };
        *loaded
    }

    #[tokio::test(start_paused = true)]
    async fn uses_cgroup_driver_of_runtime_or_configuration() {
        use cri::v1::CgroupDriver as Reported;
        use testkit::fake_runtime::{FakeRuntime, Fault, Injection, Rpc, tokio_clock};
        let fake = FakeRuntime::start_in_memory(tokio_clock(1_000)).unwrap();
        let client = || {
            let channel = fake.channel();
            CriClient::from_channels(channel.clone(), channel, Duration::from_secs(120))
        };
        let losing = |metrics: &Metrics| {
            let text = metrics.encode(agent::metrics::Format::Text);
            text.contains("kubelet_cri_losing_support{version=\"1.37.0\"} 1")
        };
        let (cgroupfs, systemd) =
            (loaded(&["--cgroup-driver=cgroupfs"]), loaded(&["--cgroup-driver=systemd"]));
        let metrics = Metrics::new();
        fake.set_cgroup_driver(Some(Reported::Systemd));
        assert_eq!(cgroup_driver(&client(), &cgroupfs, &metrics).await, CgroupDriver::Systemd);
        fake.set_cgroup_driver(Some(Reported::Cgroupfs));
        assert_eq!(cgroup_driver(&client(), &systemd, &metrics).await, CgroupDriver::Cgroupfs);
        assert!(!losing(&metrics));
        // Two failures are retried.
        let no = Fault::Fail(tonic::Code::Unknown, "not yet".to_owned());
        fake.inject(Injection::new(Rpc::RuntimeConfig, no.clone()).times(2));
        assert_eq!(cgroup_driver(&client(), &systemd, &metrics).await, CgroupDriver::Cgroupfs);
        fake.inject(Injection::new(Rpc::RuntimeConfig, no).times(3));
        assert_eq!(cgroup_driver(&client(), &systemd, &metrics).await, CgroupDriver::Systemd);
        assert!(!losing(&metrics));
        fake.set_cgroup_driver(None);
        let calls = fake.count(Rpc::RuntimeConfig);
        assert_eq!(cgroup_driver(&client(), &systemd, &metrics).await, CgroupDriver::Systemd);
        assert_eq!(fake.count(Rpc::RuntimeConfig), calls + 1);
        assert!(losing(&metrics));
    }
}
