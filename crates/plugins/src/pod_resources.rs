//! Server of the pod resources API on `pod-resources/kubelet.sock`, used by device monitoring agents.

use std::path::Path;
use std::sync::Arc;

use model::PreparedDevice;
use ports::served::pod_resources::{
    AllocatedClaim, AllocatedContainer, AllocatedDevice, AllocatedMemory, AllocatedPod, ContractVersion,
    PodResources,
};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::pod_resources_v1 as v1;
use crate::pod_resources_v1alpha1 as v1alpha1;
use crate::serving::{ServeError, UnaryLimit, bind};

/// Serves both API versions on a socket until `stop` completes.
///
/// # Errors
/// If the socket cannot be created, or the server fails.
pub async fn serve_pod_resources(
    path: &Path,
    resources: Arc<dyn PodResources>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let listener = bind(path)?;
    let rate_limiter = Arc::new(UnaryLimit::default());
    let limit = move |request: Request<()>| rate_limiter.check().map(|()| request);
    let lister = Lister { resources };
    let served = Server::builder()
        .add_service(v1::pod_resources_lister_server::PodResourcesListerServer::with_interceptor(
            lister.clone(),
            limit.clone(),
        ))
        .add_service(v1alpha1::pod_resources_lister_server::PodResourcesListerServer::with_interceptor(
            lister, limit,
        ))
        .serve_with_incoming_shutdown(listener, stop);
    served.await.map_err(ServeError::Serve)
}

#[derive(Clone)]
struct Lister {
    resources: Arc<dyn PodResources>,
}

#[tonic::async_trait]
impl v1::pod_resources_lister_server::PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<v1::ListPodResourcesRequest>,
    ) -> Result<Response<v1::ListPodResourcesResponse>, Status> {
        let pods = self.resources.list(ContractVersion::V1);
        let pod_resources = pods.into_iter().map(pod_v1).collect();
        Ok(Response::new(v1::ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<v1::AllocatableResourcesRequest>,
    ) -> Result<Response<v1::AllocatableResourcesResponse>, Status> {
        let cpu_ids = self.resources.allocatable_cpus().into_iter().map(i64::from).collect();
        let memory = self.resources.allocatable_memory().into_iter().map(memory_v1).collect();
        let devices = self.resources.allocatable_devices().into_iter().map(device_v1).collect();
        Ok(Response::new(v1::AllocatableResourcesResponse { devices, cpu_ids, memory }))
    }

    async fn get(
        &self,
        request: Request<v1::GetPodResourcesRequest>,
    ) -> Result<Response<v1::GetPodResourcesResponse>, Status> {
        let v1::GetPodResourcesRequest { pod_name, pod_namespace } = request.into_inner();
        match self.resources.get(&pod_namespace, &pod_name) {
            Some(pod) => Ok(Response::new(v1::GetPodResourcesResponse { pod_resources: Some(pod_v1(pod)) })),
            // Same code as upstream.
            None => Err(Status::unknown(format!("pod {pod_name} in namespace {pod_namespace} not found"))),
        }
    }
}

#[tonic::async_trait]
impl v1alpha1::pod_resources_lister_server::PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<v1alpha1::ListPodResourcesRequest>,
    ) -> Result<Response<v1alpha1::ListPodResourcesResponse>, Status> {
        let pods = self.resources.list(ContractVersion::V1Alpha1);
        let container = |container: AllocatedContainer| v1alpha1::ContainerResources {
            name: container.name,
            devices: container.devices.into_iter().map(device_v1alpha1).collect(),
        };
        let pod = |pod: AllocatedPod| v1alpha1::PodResources {
            name: pod.name,
            namespace: pod.namespace,
            containers: pod.containers.into_iter().map(container).collect(),
        };
        let pod_resources = pods.into_iter().map(pod).collect();
        Ok(Response::new(v1alpha1::ListPodResourcesResponse { pod_resources }))
    }
}

fn memory_v1(memory: AllocatedMemory) -> v1::ContainerMemory {
    let nodes = memory.nodes.into_iter().map(|id| v1::NumaNode { id: i64::from(id) }).collect();
    v1::ContainerMemory {
        memory_type: memory.kind,
        size: memory.size,
        topology: Some(v1::TopologyInfo { nodes }),
    }
}

fn device_v1(device: AllocatedDevice) -> v1::ContainerDevices {
    let topology = device.node.map(|id| v1::TopologyInfo { nodes: vec![v1::NumaNode { id }] });
    v1::ContainerDevices { resource_name: device.resource, device_ids: vec![device.id], topology }
}

/// The old version has no topology.
fn device_v1alpha1(device: AllocatedDevice) -> v1alpha1::ContainerDevices {
    v1alpha1::ContainerDevices { resource_name: device.resource, device_ids: vec![device.id] }
}

fn pod_v1(pod: AllocatedPod) -> v1::PodResources {
    let container = |container: AllocatedContainer| v1::ContainerResources {
        name: container.name,
        cpu_ids: container.cpus.into_iter().map(i64::from).collect(),
        memory: container.memory.into_iter().map(memory_v1).collect(),
        devices: container.devices.into_iter().map(device_v1).collect(),
        dynamic_resources: container.claims.into_iter().map(dynamic_resource).collect(),
    };
    v1::PodResources {
        name: pod.name,
        namespace: pod.namespace,
        containers: pod.containers.into_iter().map(container).collect(),
    }
}

fn dynamic_resource(claim: AllocatedClaim) -> v1::DynamicResource {
    let device = |(driver, device): (String, PreparedDevice)| v1::ClaimResource {
        cdi_devices: device.cdi_ids.into_iter().map(|name| v1::CdiDevice { name }).collect(),
        driver_name: driver,
        pool_name: device.pool,
        device_name: device.device,
        share_id: device.share_id,
    };
    v1::DynamicResource {
        claim_name: claim.name,
        claim_namespace: claim.namespace,
        claim_resources: claim.devices.into_iter().map(device).collect(),
    }
}

#[cfg(test)]
mod tests;
