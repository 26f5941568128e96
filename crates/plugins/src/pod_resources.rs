//! The server of `pod-resources/kubelet.sock`: what pods hold of the node, for programs that watch devices.

mod rate;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ports::pod_resources::{ContractVersion, PodHoldings, PodResources};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};

use crate::pod_resources_v1 as v1;
use crate::pod_resources_v1alpha1 as v1alpha1;
use rate::Rate;

/// Calls per second, and how many of them at once.
const PER_SECOND: f64 = 100.0;
const BURST: f64 = 10.0;

/// Why the socket is not served.
#[derive(Debug, thiserror::Error)]
pub enum PodResourcesError {
    /// The socket cannot be made.
    #[error("make the socket {}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The server ended.
    #[error("serve the pod resources")]
    Serve(#[source] tonic::transport::Error),
}

/// Serves both versions on a socket until `stop` ends.
///
/// # Errors
/// When the socket cannot be made, or the server ends by itself.
pub async fn serve_pod_resources(
    path: &Path,
    holdings: Arc<dyn PodResources>,
    stop: impl Future<Output = ()>,
) -> Result<(), PodResourcesError> {
    let failed = |source| PodResourcesError::Bind { path: path.to_path_buf(), source };
    let listener = listen(path).map_err(failed)?;
    let rate = Arc::new(Rate::new(PER_SECOND, BURST));
    let limit = move |request: Request<()>| {
        if rate.take() {
            Ok(request)
        } else {
            Err(Status::new(Code::ResourceExhausted, "rejected by rate limit"))
        }
    };
    let lister = Lister { holdings };
    let served = Server::builder()
        .add_service(v1::pod_resources_lister_server::PodResourcesListerServer::with_interceptor(
            lister.clone(),
            limit.clone(),
        ))
        .add_service(v1alpha1::pod_resources_lister_server::PodResourcesListerServer::with_interceptor(
            lister, limit,
        ))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop);
    served.await.map_err(PodResourcesError::Serve)
}

/// Makes the socket beside its place and moves it there, so that one that an agent before left is replaced in one step.
fn listen(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::DirBuilderExt;
    if let Some(folder) = path.parent()
        && !folder.exists()
    {
        std::fs::DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
    }
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&beside)?;
    std::fs::rename(&beside, path)?;
    Ok(listener)
}

#[derive(Clone)]
struct Lister {
    holdings: Arc<dyn PodResources>,
}

#[tonic::async_trait]
impl v1::pod_resources_lister_server::PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<v1::ListPodResourcesRequest>,
    ) -> Result<Response<v1::ListPodResourcesResponse>, Status> {
        let pods = self.holdings.list(ContractVersion::V1);
        let pod_resources = pods.into_iter().map(pod_v1).collect();
        Ok(Response::new(v1::ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<v1::AllocatableResourcesRequest>,
    ) -> Result<Response<v1::AllocatableResourcesResponse>, Status> {
        self.holdings.asked_for_allocatable();
        Ok(Response::new(v1::AllocatableResourcesResponse::default()))
    }

    async fn get(
        &self,
        request: Request<v1::GetPodResourcesRequest>,
    ) -> Result<Response<v1::GetPodResourcesResponse>, Status> {
        let v1::GetPodResourcesRequest { pod_name, pod_namespace } = request.into_inner();
        match self.holdings.get(&pod_namespace, &pod_name) {
            Some(pod) => Ok(Response::new(v1::GetPodResourcesResponse { pod_resources: Some(pod_v1(pod)) })),
            // The code is upstream's.
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
        let pods = self.holdings.list(ContractVersion::V1Alpha1);
        let container = |name| v1alpha1::ContainerResources { name, devices: Vec::new() };
        let pod = |pod: PodHoldings| v1alpha1::PodResources {
            name: pod.name,
            namespace: pod.namespace,
            containers: pod.containers.into_iter().map(container).collect(),
        };
        let pod_resources = pods.into_iter().map(pod).collect();
        Ok(Response::new(v1alpha1::ListPodResourcesResponse { pod_resources }))
    }
}

fn pod_v1(pod: PodHoldings) -> v1::PodResources {
    let container = |name| v1::ContainerResources { name, ..v1::ContainerResources::default() };
    v1::PodResources {
        name: pod.name,
        namespace: pod.namespace,
        containers: pod.containers.into_iter().map(container).collect(),
    }
}

#[cfg(test)]
mod tests;
