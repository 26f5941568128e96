//! Client of device plugins.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use model::{AllocatedDevices, Device, DeviceOptions, DevicePluginOptions, Mount, PluginDevice};
use ports::plugins::device_plugin::{
    DeviceLists, DevicePlugin, DevicePluginConnector, DevicePluginError, PreferenceQuery,
};
use prost::Message;
use tonic::Status;
use tonic::transport::Channel;

use crate::connect::{dial, go_error_text, within};
use crate::device_plugin_v1beta1 as proto;
use proto::device_plugin_client::DevicePluginClient;

/// Upstream waits without a limit for all calls but the last one; a plugin that hangs would then block every pod that needs
/// a device.
const OPTIONS_TIMEOUT: Duration = Duration::from_secs(10);
const PREFERENCE_TIMEOUT: Duration = Duration::from_secs(10);
const ALLOCATE_TIMEOUT: Duration = Duration::from_secs(60);
const PRE_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Implements [`DevicePluginConnector`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcDevicePluginConnector;

#[async_trait]
impl DevicePluginConnector for GrpcDevicePluginConnector {
    async fn connect(&self, socket: &Path) -> Result<Arc<dyn DevicePlugin>, DevicePluginError> {
        let failed = |what: &str, status: &Status| {
            DevicePluginError(format!("failed to {what}: {}", go_error_text(status)))
        };
        let channel = dial(socket).await.map_err(|status| failed("dial device plugin", &status))?;
        let mut client = DevicePluginClient::new(channel);
        let options = within(OPTIONS_TIMEOUT, client.get_device_plugin_options(proto::Empty {})).await;
        let options = options.map_err(|status| failed("get device plugin options", &status))?.into_inner();
        Ok(Arc::new(GrpcDevicePlugin {
            client,
            options: DevicePluginOptions {
                needs_pre_start: options.pre_start_required,
                offers_preferences: options.get_preferred_allocation_available,
            },
        }))
    }

    fn decode(&self, encoded: &[u8]) -> Option<DeviceOptions> {
        proto::ContainerAllocateResponse::decode(encoded).ok().map(|answer| device_options(&answer))
    }
}

struct GrpcDevicePlugin {
    client: DevicePluginClient<Channel>,
    options: DevicePluginOptions,
}

#[async_trait]
impl DevicePlugin for GrpcDevicePlugin {
    fn options(&self) -> DevicePluginOptions {
        self.options
    }

    async fn watch(&self) -> Result<DeviceLists, DevicePluginError> {
        let lists =
            self.client.clone().list_and_watch(proto::Empty {}).await.map_err(|status| error(&status))?;
        let lists = lists.into_inner().map(|list| match list {
            Ok(list) => Ok(list.devices.into_iter().map(device).collect()),
            Err(status) => Err(error(&status)),
        });
        Ok(lists.boxed())
    }

    async fn prefer(&self, query: &PreferenceQuery) -> Result<Vec<String>, DevicePluginError> {
        let request = proto::ContainerPreferredAllocationRequest {
            available_device_i_ds: query.available.clone(),
            must_include_device_i_ds: query.must_include.clone(),
            allocation_size: i32::try_from(query.size).unwrap_or(i32::MAX),
        };
        let request = proto::PreferredAllocationRequest { container_requests: vec![request] };
        let mut client = self.client.clone();
        let answer = within(PREFERENCE_TIMEOUT, client.get_preferred_allocation(request)).await;
        let answer = answer.map_err(|status| error(&status))?.into_inner();
        let first = answer.container_responses.into_iter().next();
        Ok(first.map(|container| container.device_i_ds).unwrap_or_default())
    }

    async fn allocate(&self, devices: &[String]) -> Result<AllocatedDevices, DevicePluginError> {
        let request = proto::ContainerAllocateRequest { devices_ids: devices.to_vec() };
        let request = proto::AllocateRequest { container_requests: vec![request] };
        let answer = within(ALLOCATE_TIMEOUT, self.client.clone().allocate(request)).await;
        let answer = answer.map_err(|status| error(&status))?.into_inner();
        match answer.container_responses.into_iter().next() {
            Some(container) => Ok(AllocatedDevices {
                encoded: container.encode_to_vec(),
                options: device_options(&container),
            }),
            None => Err(DevicePluginError("no containers return in allocation response ".to_owned())),
        }
    }

    async fn pre_start(&self, devices: &[String]) -> Result<(), DevicePluginError> {
        let request = proto::PreStartContainerRequest { devices_ids: devices.to_vec() };
        let started = within(PRE_START_TIMEOUT, self.client.clone().pre_start_container(request)).await;
        started.map(drop).map_err(|status| error(&status))
    }
}

fn error(status: &Status) -> DevicePluginError {
    DevicePluginError(go_error_text(status))
}

fn device(device: proto::Device) -> PluginDevice {
    let nodes = device.topology.unwrap_or_default().nodes;
    PluginDevice {
        id: device.id,
        health: device.health,
        nodes: nodes.into_iter().map(|node| node.id).collect(),
    }
}

fn device_options(answer: &proto::ContainerAllocateResponse) -> DeviceOptions {
    let mount = |mount: &proto::Mount| Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.clone(),
        readonly: mount.read_only,
        ..Mount::default()
    };
    let device = |device: &proto::DeviceSpec| Device {
        container_path: device.container_path.clone(),
        host_path: device.host_path.clone(),
        permissions: device.permissions.clone(),
    };
    DeviceOptions {
        env: answer.envs.clone().into_iter().collect(),
        mounts: answer.mounts.iter().map(mount).collect(),
        devices: answer.devices.iter().map(device).collect(),
        annotations: answer.annotations.clone().into_iter().collect(),
        cdi_devices: answer.cdi_devices.iter().map(|device| device.name.clone()).collect(),
    }
}
