//! Starts the registration of plugins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::dynamic_resources::dra_drivers::DraDrivers;
use agent::node::node_reports::NodeReportSenders;
use agent::pipeline::device_plugins;
use agent::volumes::csi_registration::CsiPlugins;
use agent::volumes::plugin_registry;
use plugins::serve_device_registration;
use ports::plugins::plugin_registry::PluginType;
use timing::{Backoff, BackoffPolicy, random};

use super::Running;
use super::context::Context;

/// The socket of the registration in the folder of device plugins.
const DEVICE_REGISTRATION: &str = "kubelet.sock";
const RETRY: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(60));

/// Starts the registration of plugins by their sockets. Without an API server only device plugins can register.
pub(super) fn start_plugin_registry(
    running: &mut Running,
    context: &Context,
    csi: Option<Arc<CsiPlugins>>,
    dra: Option<Arc<DraDrivers>>,
) {
    let adapters = &context.adapters;
    let devices = Arc::new(adapters.allocations.managed().devices().clone());
    let mut types = BTreeMap::from([("DevicePlugin".to_owned(), devices as Arc<dyn PluginType>)]);
    types.extend(csi.map(|csi| ("CSIPlugin".to_owned(), csi as Arc<dyn PluginType>)));
    types.extend(dra.map(|drivers| ("DRAPlugin".to_owned(), drivers as Arc<dyn PluginType>)));
    let deps = plugin_registry::PluginRegistryDeps {
        sockets: adapters.plugin_sockets.clone(),
        watch: adapters.watch.clone(),
        registration: adapters.plugin_registration.clone(),
        types,
        metrics: adapters.metrics.clone(),
    };
    running.spawn("plugins", plugin_registry::run(deps, running.cancel.clone()));
}

/// Starts the stage of device plugins, and serves their registration while the agent runs.
pub(super) fn start_device_plugins(running: &mut Running, context: &Context, reporters: &NodeReportSenders) {
    let devices = context.adapters.allocations.managed().devices().clone();
    let deps =
        device_plugins::DevicePluginsDeps { devices: devices.clone(), reports: reporters.devices.clone() };
    running.spawn("device plugins", device_plugins::run(deps, running.cancel.clone()));
    let socket = context.plan.device_plugins.join(DEVICE_REGISTRATION);
    let cancel = running.cancel.clone();
    running.spawn("device registration", async move {
        let mut backoff = Backoff::new(RETRY);
        loop {
            let registry = Arc::new(devices.clone());
            let served = serve_device_registration(&socket, registry, cancel.cancelled()).await;
            let Err(error) = served else { return };
            let error = anyhow::Error::from(error);
            tracing::error!(error = %format!("{error:#}"), "failed to serve the registration of device plugins, retrying");
            devices.set_registration_problem(Some(format!(
                "device registration error: device plugin registration gRPC server failed and no device plugins can register: {error:#}"
            )));
            let delay = tokio::time::sleep(backoff.next(random()));
            if cancel.run_until_cancelled(delay).await.is_none() {
                return;
            }
            devices.set_registration_problem(None);
        }
    });
}
