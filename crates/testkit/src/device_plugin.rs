//! A small device plugin.
//!
//! Serves the plugin's service on a socket beside the agent's registration socket, and registers there each time the agent
//! creates a new one, as real plugins do. An allocation sets an environment variable, mounts a file, adds a device node and
//! an annotation. Every call is recorded, and calls can be made to fail or to hang.

mod service;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use model::PluginDevice;
use parking_lot::Mutex;
use plugins::device_plugin_v1beta1 as proto;
use plugins::pod_resources_v1::pod_resources_lister_client::PodResourcesListerClient;
use plugins::{dial, pod_resources_v1};
use proto::device_plugin_server::DevicePluginServer;
use proto::registration_client::RegistrationClient;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Server;

use crate::csi_driver::serve;

/// How often the plugin looks for the agent's registration socket.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

/// A call of [`TestDevicePlugin::calls`] and of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceCall {
    GetDevicePluginOptions,
    GetPreferredAllocation,
    Allocate,
    PreStartContainer,
}

/// Injected misbehaviour of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFault {
    Fails,
    /// Hangs until the fault is cleared.
    Hangs,
}

/// What a plugin offers.
#[derive(Clone, Debug, Default)]
pub struct DevicePluginOptions {
    /// The devices that the plugin prefers; `None` without that call.
    pub preferred: Option<Vec<String>>,
    pub needs_pre_start: bool,
    /// Folder of CDI specs; `None` to use no CDI.
    pub cdi_specs: Option<PathBuf>,
    /// Host file that allocations mount at `/plugin-file`.
    pub mounted_file: Option<PathBuf>,
}

pub(crate) struct Shared {
    resource: String,
    options: DevicePluginOptions,
    devices: watch::Sender<Vec<PluginDevice>>,
    calls: Mutex<Vec<(DeviceCall, Vec<String>)>>,
    faults: watch::Sender<HashMap<DeviceCall, DeviceFault>>,
    /// Result of the last registration.
    registered: watch::Sender<Option<Result<(), String>>>,
    /// Number of streams of devices that were opened.
    streams: watch::Sender<u32>,
}

impl Shared {
    /// containerd 2.3 panics at a class of one letter.
    fn cdi_kind(&self) -> String {
        format!("{}-device", self.resource)
    }
}

/// A plugin that runs until it is stopped or dropped.
pub struct TestDevicePlugin {
    shared: Arc<Shared>,
    folder: PathBuf,
    running: Option<DropGuard>,
}

impl TestDevicePlugin {
    /// A plugin for a resource with healthy devices. `folder` is that of the agent's registration socket, as the plugin
    /// sees it.
    #[must_use]
    pub fn new(resource: &str, folder: &Path, devices: &[&str], options: DevicePluginOptions) -> Self {
        let healthy = |id: &&str| PluginDevice {
            id: (*id).to_owned(),
            health: "Healthy".to_owned(),
            nodes: Vec::new(),
        };
        let shared = Arc::new(Shared {
            resource: resource.to_owned(),
            options,
            devices: watch::Sender::new(devices.iter().map(healthy).collect()),
            calls: Mutex::default(),
            faults: watch::Sender::default(),
            registered: watch::Sender::new(None),
            streams: watch::Sender::new(0),
        });
        Self { shared, folder: folder.to_owned(), running: None }
    }

    /// Starts to serve and to register.
    ///
    /// # Errors
    /// When the specs cannot be written.
    pub fn start(&mut self) -> Result<()> {
        self.write_specs()?;
        self.shared.registered.send_replace(None);
        let gone = CancellationToken::new();
        let (shared, folder, stop) = (self.shared.clone(), self.folder.clone(), gone.clone());
        tokio::spawn(async move { stop.run_until_cancelled(keep_registered(shared, folder, &stop)).await });
        self.running = Some(gone.drop_guard());
        Ok(())
    }

    /// Stops like a plugin that is killed: its stream of devices ends.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Registers once, with any version and name.
    ///
    /// # Errors
    /// The agent's answer.
    pub async fn register_as(&self, version: &str, resource: &str) -> Result<(), String> {
        register(&self.folder, version, resource, &endpoint(&self.shared.resource)).await
    }

    /// Waits until the agent follows the devices of this plugin.
    pub async fn followed(&self) -> Result<()> {
        let mut registered = self.shared.registered.subscribe();
        registered.wait_for(|outcome| *outcome == Some(Ok(()))).await.context("the plugin is gone")?;
        let mut streams = self.shared.streams.subscribe();
        streams.wait_for(|streams| *streams > 0).await.context("the plugin is gone")?;
        Ok(())
    }

    /// The agent's last answer to a registration.
    #[must_use]
    pub fn registration(&self) -> Option<Result<(), String>> {
        self.shared.registered.borrow().clone()
    }

    /// Replaces all devices.
    pub fn set_devices(&self, devices: Vec<PluginDevice>) {
        self.shared.devices.send_replace(devices);
    }

    /// Changes the health of a device.
    pub fn set_health(&self, id: &str, health: &str) {
        self.shared.devices.send_modify(|devices| {
            let own = devices.iter_mut().filter(|device| device.id == id);
            own.for_each(|device| health.clone_into(&mut device.health));
        });
    }

    /// All recorded calls with their sorted devices.
    #[must_use]
    pub fn calls(&self) -> Vec<(DeviceCall, Vec<String>)> {
        self.shared.calls.lock().clone()
    }

    /// The devices of each recorded call of a kind.
    #[must_use]
    pub fn calls_of(&self, call: DeviceCall) -> Vec<Vec<String>> {
        self.calls().into_iter().filter(|(kind, _)| *kind == call).map(|(_, devices)| devices).collect()
    }

    /// Injects a fault into a call, or clears it.
    pub fn set_fault(&self, call: DeviceCall, fault: Option<DeviceFault>) {
        self.shared.faults.send_modify(|faults| {
            match fault {
                Some(fault) => faults.insert(call, fault),
                None => faults.remove(&call),
            };
        });
    }

    /// One CDI device for each device, which sets an environment variable.
    fn write_specs(&self) -> Result<()> {
        let Some(folder) = &self.shared.options.cdi_specs else { return Ok(()) };
        fs::create_dir_all(folder).context("make the folder of specs")?;
        let device = |device: &PluginDevice| {
            let variable = format!("CDI_{}={}", device.id.replace('-', "_"), self.shared.resource);
            json!({"name": device.id, "containerEdits": {"env": [variable]}})
        };
        let devices: Vec<_> = self.shared.devices.borrow().iter().map(device).collect();
        let spec = json!({"cdiVersion": "0.6.0", "kind": self.shared.cdi_kind(), "devices": devices});
        let file = folder.join(format!("{}.json", self.shared.resource.replace('/', "-")));
        fs::write(file, spec.to_string()).context("write the spec")
    }
}

/// The healthy devices of a resource, sorted, as the agent's pod-resources socket shows them.
///
/// # Errors
/// When the socket does not answer.
pub async fn allocatable_devices(pod_resources: &Path, resource: &str) -> Result<Vec<String>> {
    let channel = dial(pod_resources).await.context("connect to the pod-resources socket")?;
    let request = pod_resources_v1::AllocatableResourcesRequest {};
    let answer = PodResourcesListerClient::new(channel).get_allocatable_resources(request).await;
    let devices = answer.context("allocatable resources")?.into_inner().devices;
    let own = devices.into_iter().filter(|device| device.resource_name == resource);
    let mut found: Vec<_> = own.flat_map(|device| device.device_ids).collect();
    found.sort();
    Ok(found)
}

/// The containers that the agent's pod-resources socket lists, sorted, with their sorted devices.
///
/// # Errors
/// When the socket does not answer.
pub async fn allocated_devices(pod_resources: &Path) -> Result<Vec<(String, Vec<String>)>> {
    let channel = dial(pod_resources).await.context("connect to the pod-resources socket")?;
    let request = pod_resources_v1::ListPodResourcesRequest {};
    let answer = PodResourcesListerClient::new(channel).list(request).await;
    let pods = answer.context("resources of pods")?.into_inner().pod_resources;
    let row = |container: pod_resources_v1::ContainerResources| {
        let mut ids: Vec<_> = container.devices.into_iter().flat_map(|own| own.device_ids).collect();
        ids.sort();
        (container.name, ids)
    };
    let mut rows: Vec<_> = pods.into_iter().flat_map(|pod| pod.containers).map(row).collect();
    rows.sort();
    Ok(rows)
}

/// The plugin's socket beside that of the agent.
fn endpoint(resource: &str) -> String {
    format!("{}.sock", resource.replace('/', "-"))
}

fn identity(socket: &Path) -> Option<(u64, i64, i64)> {
    let found = fs::symlink_metadata(socket).ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

/// Serves and registers each time the agent has created a new socket. The agent has then removed the plugin's socket.
async fn keep_registered(shared: Arc<Shared>, folder: PathBuf, gone: &CancellationToken) {
    let mut known = None;
    let mut serving = gone.child_token();
    loop {
        let found = identity(&folder.join("kubelet.sock"));
        let has_socket = folder.join(endpoint(&shared.resource)).exists();
        if found.is_some() && (found != known || !has_socket) {
            serving.cancel();
            serving = gone.child_token();
            shared.streams.send_replace(0);
            let served = serve_plugin(&shared, &folder, &serving);
            let registered = match served {
                Ok(()) => {
                    let endpoint = endpoint(&shared.resource);
                    register(&folder, "v1beta1", &shared.resource, &endpoint).await
                }
                Err(error) => Err(error.to_string()),
            };
            known = found.filter(|_| registered.is_ok());
            shared.registered.send_replace(Some(registered));
        }
        tokio::time::sleep(CHECK_PERIOD).await;
    }
}

fn serve_plugin(shared: &Arc<Shared>, folder: &Path, gone: &CancellationToken) -> Result<()> {
    let socket = folder.join(endpoint(&shared.resource));
    let _ = fs::remove_file(&socket);
    let plugin = service::Plugin { shared: shared.clone(), gone: gone.clone() };
    serve(&socket, Server::builder().add_service(DevicePluginServer::new(plugin)), gone)
}

async fn register(folder: &Path, version: &str, resource: &str, endpoint: &str) -> Result<(), String> {
    let channel = dial(&folder.join("kubelet.sock")).await.map_err(|status| status.message().to_owned())?;
    let request = proto::RegisterRequest {
        version: version.to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.to_owned(),
        options: None,
    };
    let answer = RegistrationClient::new(channel).register(request).await;
    answer.map(drop).map_err(|status| status.message().to_owned())
}
