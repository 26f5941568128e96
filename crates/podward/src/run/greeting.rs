//! The first words with the container runtime.

use std::sync::Arc;
use std::time::Duration;

use agent::metrics::Metrics;
use anyhow::Context;
use config::{Gate, Loaded};
use cri::{CriClient, Endpoint};
use model::CgroupDriver;
use ports::runtime::{Runtime, RuntimeErrorKind};

use super::stop::Stop;
use crate::pod_cidr;

pub(super) fn connect(loaded: &Loaded, metrics: &Arc<Metrics>) -> anyhow::Result<Arc<dyn Runtime>> {
    let images = &loaded.config.images;
    let endpoint: Endpoint = images.container_runtime_endpoint.parse().context("containerRuntimeEndpoint")?;
    let image_endpoint: Endpoint = match images.image_service_endpoint.as_str() {
        "" => endpoint.clone(),
        other => other.parse().context("imageServiceEndpoint")?,
    };
    let timeout = images.runtime_request_timeout.to_std();
    let channel = cri::connect(&endpoint);
    let image_channel =
        if image_endpoint == endpoint { channel.clone() } else { cri::connect(&image_endpoint) };
    let client = CriClient::from_channels(channel, image_channel, timeout).with_meter(metrics.clone());
    Ok(Arc::new(match loaded.gates.enabled(Gate::CRIListStreaming) {
        true => client.with_lists_in_pieces(),
        false => client,
    }))
}

/// What the runtime said of itself.
pub(super) struct Greeted {
    pub(super) runtime_name: String,
    pub(super) driver: CgroupDriver,
    /// Features of the node that only the runtime can bring.
    pub(super) features: Vec<&'static str>,
}

/// Asks the runtime who it is, how it makes cgroups and what it can; waits for it. `None` when told to stop meanwhile.
pub(super) async fn greet(
    runtime: &dyn Runtime,
    loaded: &Loaded,
    metrics: &Metrics,
    stop: &mut Stop,
) -> anyhow::Result<Option<Greeted>> {
    let met = async {
        let runtime_name = meet(runtime, loaded).await;
        let driver = named_driver(runtime, loaded, metrics).await;
        pod_cidr::tell(runtime, &loaded.config.node.pod_cidr).await;
        Greeted { runtime_name, driver, features: brought_features(runtime, loaded).await }
    };
    // Each question may take as long as a runtime that accepts it and says nothing.
    tokio::select! {
        name = stop.next() => {
            tracing::info!(signal = name, "stopping");
            Ok(None)
        }
        met = met => Ok(Some(met)),
    }
}

/// Waits until the runtime says who it is.
async fn meet(runtime: &dyn Runtime, loaded: &Loaded) -> String {
    let mut told = false;
    let version = loop {
        match runtime.version().await {
            Ok(version) => break version,
            Err(error) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::error!(endpoint = %loaded.config.images.container_runtime_endpoint, %error, "the container runtime does not answer; waiting for it");
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    tracing::info!(runtime = %version.name, version = %version.version, "container runtime found");
    version.name
}

/// The features that the runtime brings, among those that are wanted. Asked once: what a node declares does not change
/// while it runs.
async fn brought_features(runtime: &dyn Runtime, loaded: &Loaded) -> Vec<&'static str> {
    if !loaded.gates.enabled(Gate::UserNamespacesHostNetworkSupport) {
        return Vec::new();
    }
    match runtime.conditions().await {
        Ok(told) if told.user_namespaces_host_network => vec!["UserNamespacesHostNetworkSupport"],
        Ok(_) => Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "the runtime does not say whether pods in the node's network can have users of their own");
            Vec::new()
        }
    }
}

/// The cgroup driver that the runtime names, or else the configured one.
async fn named_driver(runtime: &dyn Runtime, loaded: &Loaded, metrics: &Metrics) -> CgroupDriver {
    let configured = match loaded.config.cgroups.cgroup_driver {
        config::configuration::CgroupDriver::Cgroupfs => CgroupDriver::Cgroupfs,
        config::configuration::CgroupDriver::Systemd => CgroupDriver::Systemd,
    };
    for _ in 0..3 {
        match runtime.cgroup_driver().await {
            Ok(driver) => return driver,
            Err(error) if error.kind == RuntimeErrorKind::Unimplemented => {
                metrics.runtime.lacks_config();
                break;
            }
            Err(error) => tracing::warn!(%error, "the runtime does not name its cgroup driver; asking again"),
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
    async fn a_runtime_that_takes_questions_and_says_nothing_holds_up_no_stop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cri.sock");
        let _silent = tokio::net::UnixListener::bind(&path).unwrap();
        let channel = cri::connect(&format!("unix://{}", path.display()).parse().unwrap());
        let runtime = CriClient::from_channels(channel.clone(), channel, Duration::from_secs(120));
        let environment =
            Environment { working_directory: folder.path().to_owned(), cgroup: CgroupVersion::Unknown };
        let Ok(Invocation::Run(loaded)) = load(&[], &environment) else { panic!("not an order to run") };
        let mut stop = stop_signals().unwrap();
        stop.contention = Some(Box::pin(tokio::time::sleep(Duration::from_millis(100))));
        let metrics = Metrics::new();
        let greeted = greet(&runtime, &loaded, &metrics, &mut stop);
        let greeted = tokio::time::timeout(Duration::from_secs(20), greeted).await;
        assert!(greeted.expect("it stops").unwrap().is_none());
    }

    fn loaded(arguments: &[&str]) -> Loaded {
        let environment = Environment { working_directory: "/".into(), cgroup: CgroupVersion::Unknown };
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let Ok(Invocation::Run(loaded)) = load(&arguments, &environment) else {
            panic!("not an order to run")
        };
        *loaded
    }

    #[tokio::test(start_paused = true)]
    async fn the_runtime_names_the_cgroup_driver_or_the_configuration_does() {
        use cri::v1::CgroupDriver as Told;
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
        fake.set_cgroup_driver(Some(Told::Systemd));
        assert_eq!(named_driver(&client(), &cgroupfs, &metrics).await, CgroupDriver::Systemd);
        fake.set_cgroup_driver(Some(Told::Cgroupfs));
        assert_eq!(named_driver(&client(), &systemd, &metrics).await, CgroupDriver::Cgroupfs);
        assert!(!losing(&metrics));
        // What fails twice is asked a third time.
        let no = Fault::Fail(tonic::Code::Unknown, "not yet".to_owned());
        fake.inject(Injection::new(Rpc::RuntimeConfig, no.clone()).times(2));
        assert_eq!(named_driver(&client(), &systemd, &metrics).await, CgroupDriver::Cgroupfs);
        fake.inject(Injection::new(Rpc::RuntimeConfig, no).times(3));
        assert_eq!(named_driver(&client(), &systemd, &metrics).await, CgroupDriver::Systemd);
        assert!(!losing(&metrics));
        fake.set_cgroup_driver(None);
        let asked = fake.count(Rpc::RuntimeConfig);
        assert_eq!(named_driver(&client(), &systemd, &metrics).await, CgroupDriver::Systemd);
        assert_eq!(fake.count(Rpc::RuntimeConfig), asked + 1);
        assert!(losing(&metrics));
    }
}
