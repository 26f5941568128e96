//! The plugin's gRPC service.

use futures::StreamExt as _;
use tokio_stream::wrappers::WatchStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, async_trait};

use super::proto::device_plugin_server::DevicePlugin;
use super::*;

pub(super) struct Plugin {
    pub(super) shared: Arc<Shared>,
    /// Ends the streams.
    pub(super) gone: CancellationToken,
}

impl Plugin {
    /// Records a call, and fails or hangs if a fault is injected.
    async fn record(&self, call: DeviceCall, devices: &[String]) -> Result<(), Status> {
        let mut devices = devices.to_vec();
        devices.sort();
        self.shared.calls.lock().push((call, devices));
        let mut faults = self.shared.faults.subscribe();
        let over = faults.wait_for(|faults| faults.get(&call) != Some(&DeviceFault::Hangs)).await;
        let fault = over.ok().and_then(|faults| faults.get(&call).copied());
        match fault {
            Some(DeviceFault::Fails) => Err(Status::internal("injected failure")),
            Some(DeviceFault::Hangs) | None => Ok(()),
        }
    }

    fn response(&self, devices: Vec<String>) -> proto::ContainerAllocateResponse {
        let Shared { resource, options, .. } = &*self.shared;
        let mut devices = devices;
        devices.sort();
        let variable = format!("DEVICES_OF_{}", resource.replace(['.', '/', '-'], "_"));
        let mount = |file: &PathBuf| proto::Mount {
            container_path: "/plugin-file".to_owned(),
            host_path: file.display().to_string(),
            read_only: true,
        };
        let kind = self.shared.cdi_kind();
        let cdi = |id: &String| proto::CdiDevice { name: format!("{kind}={id}") };
        let nodes = devices.iter().map(|id| proto::DeviceSpec {
            container_path: format!("/dev/{}-{id}", resource.replace('/', "-")),
            host_path: "/dev/null".to_owned(),
            permissions: "rw".to_owned(),
        });
        proto::ContainerAllocateResponse {
            envs: [(variable, devices.join(","))].into(),
            mounts: options.mounted_file.iter().map(mount).collect(),
            devices: nodes.collect(),
            annotations: [(format!("devices.{}", resource.replace('/', ".")), devices.join(","))].into(),
            cdi_devices: options.cdi_specs.iter().flat_map(|_| devices.iter().map(cdi)).collect(),
        }
    }
}

fn device(device: PluginDevice) -> proto::Device {
    let nodes: Vec<_> = device.nodes.into_iter().map(|id| proto::NumaNode { id }).collect();
    let topology = (!nodes.is_empty()).then_some(proto::TopologyInfo { nodes });
    proto::Device { id: device.id, health: device.health, topology }
}

#[async_trait]
impl DevicePlugin for Plugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<proto::Empty>,
    ) -> Result<Response<proto::DevicePluginOptions>, Status> {
        self.record(DeviceCall::GetDevicePluginOptions, &[]).await?;
        let options = &self.shared.options;
        Ok(Response::new(proto::DevicePluginOptions {
            pre_start_required: options.needs_pre_start,
            get_preferred_allocation_available: options.preferred.is_some(),
        }))
    }

    async fn list_and_watch(
        &self,
        _: Request<proto::Empty>,
    ) -> Result<Response<BoxStream<proto::ListAndWatchResponse>>, Status> {
        self.shared.streams.send_modify(|streams| *streams += 1);
        let lists = WatchStream::new(self.shared.devices.subscribe());
        let lists = lists.map(|devices| {
            Ok(proto::ListAndWatchResponse { devices: devices.into_iter().map(device).collect() })
        });
        let stream = lists.take_until(self.gone.clone().cancelled_owned());
        Ok(Response::new(stream.boxed()))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<proto::PreferredAllocationRequest>,
    ) -> Result<Response<proto::PreferredAllocationResponse>, Status> {
        let mut containers = Vec::new();
        for container in request.into_inner().container_requests {
            self.record(DeviceCall::GetPreferredAllocation, &container.available_device_i_ds).await?;
            let must = container.must_include_device_i_ds;
            let preferred = self.shared.options.preferred.clone().unwrap_or_default();
            let device_i_ds = must.into_iter().chain(preferred).collect();
            containers.push(proto::ContainerPreferredAllocationResponse { device_i_ds });
        }
        Ok(Response::new(proto::PreferredAllocationResponse { container_responses: containers }))
    }

    async fn allocate(
        &self,
        request: Request<proto::AllocateRequest>,
    ) -> Result<Response<proto::AllocateResponse>, Status> {
        let mut container_responses = Vec::new();
        for container in request.into_inner().container_requests {
            self.record(DeviceCall::Allocate, &container.devices_ids).await?;
            container_responses.push(self.response(container.devices_ids));
        }
        Ok(Response::new(proto::AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        request: Request<proto::PreStartContainerRequest>,
    ) -> Result<Response<proto::PreStartContainerResponse>, Status> {
        self.record(DeviceCall::PreStartContainer, &request.into_inner().devices_ids).await?;
        Ok(Response::new(proto::PreStartContainerResponse {}))
    }
}
