//! The runtime service: one handler per request, which only looks up objects and calls the modules that do the work.

use std::time::Duration;

use cri::v1::runtime_service_server::RuntimeService;
use cri::v1::{
    CheckpointContainerRequest, CheckpointContainerResponse, ContainerEventResponse, ContainerFilter,
    ContainerStatusRequest, ContainerStatusResponse, CreateContainerRequest, CreateContainerResponse,
    ExecSyncRequest, ExecSyncResponse, GetEventsRequest, ListContainersRequest, ListContainersResponse,
    ListPodSandboxRequest, ListPodSandboxResponse, PodSandboxFilter, PodSandboxStatusRequest,
    PodSandboxStatusResponse, RemoveContainerRequest, RemoveContainerResponse, RemovePodSandboxRequest,
    RemovePodSandboxResponse, ReopenContainerLogRequest, ReopenContainerLogResponse, RunPodSandboxRequest,
    RunPodSandboxResponse, RuntimeConfigRequest, RuntimeConfigResponse, StartContainerRequest,
    StartContainerResponse, StatusRequest, StatusResponse, StopContainerRequest, StopContainerResponse,
    StopPodSandboxRequest, StopPodSandboxResponse, StreamContainersRequest, StreamContainersResponse,
    StreamPodSandboxesRequest, StreamPodSandboxesResponse, UpdateContainerResourcesRequest,
    UpdateContainerResourcesResponse, UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse,
    UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse, VersionRequest, VersionResponse,
};
use tokio::sync::broadcast::error::RecvError;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::{RuntimeServices, filters, status, verbose};
use crate::containers::{
    create_container, exec_sync, published_container, published_status, remove_container, start_container,
    stop_container, update_resources,
};
use crate::errors::ServiceError;
use crate::keeper::client::KeeperClientError;
use crate::records::LifeState;
use crate::sandboxes::{published_sandbox, remove_sandbox, run_sandbox, sandbox_status, stop_sandbox};

/// Far below the largest message.
const OBJECTS_PER_MESSAGE: usize = 1000;

impl RuntimeServices {
    pub(super) fn list_sandboxes(&self, filter: &PodSandboxFilter) -> Vec<cri::v1::PodSandbox> {
        let sandboxes = self.shared.sandboxes();
        let sandboxes = sandboxes.iter().map(|sandbox| published_sandbox(sandbox));
        sandboxes.filter(|sandbox| filters::sandbox_matches(sandbox, filter)).collect()
    }

    pub(super) fn list_of_containers(&self, filter: &ContainerFilter) -> Vec<cri::v1::Container> {
        let containers = self.shared.containers();
        let containers = containers.iter().map(|container| published_container(container));
        containers.filter(|container| filters::container_matches(container, filter)).collect()
    }

    /// Requests that remove succeed if the object is gone already.
    fn unless_gone<T>(found: Result<T, ServiceError>) -> Result<Option<T>, ServiceError> {
        match found {
            Ok(object) => Ok(Some(object)),
            Err(ServiceError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Sends a list in parts; nothing if it is empty.
pub(super) fn in_parts<T: Clone + Send + 'static, M: Send + 'static>(
    list: &[T],
    message: impl Fn(Vec<T>) -> M,
) -> BoxStream<M> {
    let messages: Vec<_> = list.chunks(OBJECTS_PER_MESSAGE).map(|part| Ok(message(part.to_vec()))).collect();
    Box::pin(futures::stream::iter(messages))
}

#[tonic::async_trait]
impl RuntimeService for RuntimeServices {
    async fn version(&self, _: Request<VersionRequest>) -> Result<Response<VersionResponse>, Status> {
        Ok(Response::new(status::version()))
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        Ok(Response::new(status::status(&self.shared, request.into_inner().verbose)))
    }

    async fn runtime_config(
        &self,
        _: Request<RuntimeConfigRequest>,
    ) -> Result<Response<RuntimeConfigResponse>, Status> {
        Ok(Response::new(status::config()))
    }

    async fn update_runtime_config(
        &self,
        request: Request<UpdateRuntimeConfigRequest>,
    ) -> Result<Response<UpdateRuntimeConfigResponse>, Status> {
        let network = request.into_inner().runtime_config.unwrap_or_default().network_config;
        let cidrs = network.unwrap_or_default().pod_cidr;
        if !cidrs.is_empty() {
            self.shared.network.set_pod_cidrs(&cidrs);
        }
        Ok(Response::new(UpdateRuntimeConfigResponse {}))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<RunPodSandboxRequest>,
    ) -> Result<Response<RunPodSandboxResponse>, Status> {
        let RunPodSandboxRequest { config, runtime_handler } = request.into_inner();
        let config = config.ok_or(ServiceError::Missing("sandbox config"))?;
        let (work, undo) = (self.shared.clone(), self.shared.clone());
        let run = async move { run_sandbox(&work, config, runtime_handler).await };
        let remove = |id: String| async move {
            if let Ok(sandbox) = undo.sandbox(&id) {
                // It stays in the lists if this fails, and is removed by the caller.
                let _ = remove_sandbox(&undo, &sandbox).await;
            }
        };
        let pod_sandbox_id = self.complete(run, remove).await?;
        Ok(Response::new(RunPodSandboxResponse { pod_sandbox_id }))
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<StopPodSandboxRequest>,
    ) -> Result<Response<StopPodSandboxResponse>, Status> {
        let id = request.into_inner().pod_sandbox_id;
        if let Some(sandbox) = Self::unless_gone(self.shared.sandbox(&id))? {
            let shared = self.shared.clone();
            let stop = async move { stop_sandbox(&shared, &sandbox).await };
            self.complete(stop, |()| async {}).await?;
        }
        Ok(Response::new(StopPodSandboxResponse {}))
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<RemovePodSandboxRequest>,
    ) -> Result<Response<RemovePodSandboxResponse>, Status> {
        let id = request.into_inner().pod_sandbox_id;
        if let Some(sandbox) = Self::unless_gone(self.shared.sandbox(&id))? {
            let shared = self.shared.clone();
            let remove = async move { remove_sandbox(&shared, &sandbox).await };
            self.complete(remove, |()| async {}).await?;
        }
        Ok(Response::new(RemovePodSandboxResponse {}))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<PodSandboxStatusRequest>,
    ) -> Result<Response<PodSandboxStatusResponse>, Status> {
        let PodSandboxStatusRequest { pod_sandbox_id, verbose } = request.into_inner();
        let sandbox = self.shared.sandbox(&pod_sandbox_id)?;
        let containers = self.shared.containers_of(&sandbox.record.id);
        let mut response = PodSandboxStatusResponse {
            status: Some(sandbox_status(&sandbox)),
            containers_statuses: containers.iter().map(|container| published_status(container)).collect(),
            timestamp: self.shared.now(),
            ..PodSandboxStatusResponse::default()
        };
        if verbose {
            response.info.insert("info".to_owned(), verbose::of_sandbox(&sandbox));
        }
        Ok(Response::new(response))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<ListPodSandboxRequest>,
    ) -> Result<Response<ListPodSandboxResponse>, Status> {
        let filter = request.into_inner().filter.unwrap_or_default();
        Ok(Response::new(ListPodSandboxResponse { items: self.list_sandboxes(&filter) }))
    }

    async fn stream_pod_sandboxes(
        &self,
        request: Request<StreamPodSandboxesRequest>,
    ) -> Result<Response<BoxStream<StreamPodSandboxesResponse>>, Status> {
        let sandboxes = self.list_sandboxes(&request.into_inner().filter.unwrap_or_default());
        let message = |pod_sandboxes| StreamPodSandboxesResponse { pod_sandboxes };
        Ok(Response::new(in_parts(&sandboxes, message)))
    }

    async fn create_container(
        &self,
        request: Request<CreateContainerRequest>,
    ) -> Result<Response<CreateContainerResponse>, Status> {
        let CreateContainerRequest { pod_sandbox_id, config, .. } = request.into_inner();
        let config = config.ok_or(ServiceError::Missing("container config"))?;
        let (work, undo) = (self.shared.clone(), self.shared.clone());
        let create = async move { create_container(&work, &pod_sandbox_id, config).await };
        let remove = |id: String| async move {
            if let Ok(container) = undo.container(&id) {
                // It stays in the lists if this fails, and is removed by the caller.
                let _ = remove_container(&undo, &container).await;
            }
        };
        let container_id = self.complete(create, remove).await?;
        Ok(Response::new(CreateContainerResponse { container_id }))
    }

    async fn start_container(
        &self,
        request: Request<StartContainerRequest>,
    ) -> Result<Response<StartContainerResponse>, Status> {
        let container = self.shared.container(&request.into_inner().container_id)?;
        let shared = self.shared.clone();
        let start = async move { start_container(&shared, &container).await };
        self.complete(start, |()| async {}).await?;
        Ok(Response::new(StartContainerResponse {}))
    }

    async fn stop_container(
        &self,
        request: Request<StopContainerRequest>,
    ) -> Result<Response<StopContainerResponse>, Status> {
        let StopContainerRequest { container_id, timeout } = request.into_inner();
        if let Some(container) = Self::unless_gone(self.shared.container(&container_id))? {
            let grace = Duration::from_secs(u64::try_from(timeout).unwrap_or(0));
            // Not completed without the caller: one that leaves during the grace period does not want the kill.
            stop_container(&self.shared, &container, grace).await?;
        }
        Ok(Response::new(StopContainerResponse {}))
    }

    async fn remove_container(
        &self,
        request: Request<RemoveContainerRequest>,
    ) -> Result<Response<RemoveContainerResponse>, Status> {
        let id = request.into_inner().container_id;
        if let Some(container) = Self::unless_gone(self.shared.container(&id))? {
            let shared = self.shared.clone();
            let remove = async move { remove_container(&shared, &container).await };
            self.complete(remove, |()| async {}).await?;
        }
        Ok(Response::new(RemoveContainerResponse {}))
    }

    async fn list_containers(
        &self,
        request: Request<ListContainersRequest>,
    ) -> Result<Response<ListContainersResponse>, Status> {
        let filter = request.into_inner().filter.unwrap_or_default();
        Ok(Response::new(ListContainersResponse { containers: self.list_of_containers(&filter) }))
    }

    async fn stream_containers(
        &self,
        request: Request<StreamContainersRequest>,
    ) -> Result<Response<BoxStream<StreamContainersResponse>>, Status> {
        let containers = self.list_of_containers(&request.into_inner().filter.unwrap_or_default());
        Ok(Response::new(in_parts(&containers, |containers| StreamContainersResponse { containers })))
    }

    async fn container_status(
        &self,
        request: Request<ContainerStatusRequest>,
    ) -> Result<Response<ContainerStatusResponse>, Status> {
        let ContainerStatusRequest { container_id, verbose } = request.into_inner();
        let container = self.shared.container(&container_id)?;
        let mut response = ContainerStatusResponse {
            status: Some(published_status(&container)),
            ..ContainerStatusResponse::default()
        };
        if verbose {
            let info = verbose::of_container(&self.shared, &container).await?;
            response.info.insert("info".to_owned(), info);
        }
        Ok(Response::new(response))
    }

    async fn update_container_resources(
        &self,
        request: Request<UpdateContainerResourcesRequest>,
    ) -> Result<Response<UpdateContainerResourcesResponse>, Status> {
        let UpdateContainerResourcesRequest { container_id, linux, .. } = request.into_inner();
        let container = self.shared.container(&container_id)?;
        let shared = self.shared.clone();
        let update = linux.unwrap_or_default();
        let update = async move { update_resources(&shared, &container, update).await };
        self.complete(update, |()| async {}).await?;
        Ok(Response::new(UpdateContainerResourcesResponse {}))
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<UpdatePodSandboxResourcesRequest>,
    ) -> Result<Response<UpdatePodSandboxResourcesResponse>, Status> {
        // The caller writes the cgroup of the pod; the sandbox's own process has no limits to change.
        self.shared.sandbox(&request.into_inner().pod_sandbox_id)?;
        Ok(Response::new(UpdatePodSandboxResourcesResponse {}))
    }

    async fn reopen_container_log(
        &self,
        request: Request<ReopenContainerLogRequest>,
    ) -> Result<Response<ReopenContainerLogResponse>, Status> {
        let container = self.shared.container(&request.into_inner().container_id)?;
        let id = &container.record.id;
        if !matches!(container.life(), LifeState::Running { .. }) {
            return Err(ServiceError::State(format!("container {id} is not running")).into());
        }
        let keeper = self.shared.sandbox(&container.record.sandbox)?.keeper();
        let keeper = keeper.ok_or(ServiceError::Keeper(KeeperClientError::Gone))?;
        keeper.reopen_log(id).await.map_err(ServiceError::from)?;
        Ok(Response::new(ReopenContainerLogResponse {}))
    }

    async fn exec_sync(
        &self,
        request: Request<ExecSyncRequest>,
    ) -> Result<Response<ExecSyncResponse>, Status> {
        let ExecSyncRequest { container_id, cmd, timeout } = request.into_inner();
        let container = self.shared.container(&container_id)?;
        let limit = Duration::from_secs(u64::try_from(timeout).unwrap_or(0));
        let output = exec_sync(&self.shared, &container, cmd, limit).await?;
        let (stdout, stderr, exit_code) = (output.stdout, output.stderr, output.exit_code);
        Ok(Response::new(ExecSyncResponse { stdout, stderr, exit_code }))
    }

    async fn checkpoint_container(
        &self,
        _: Request<CheckpointContainerRequest>,
    ) -> Result<Response<CheckpointContainerResponse>, Status> {
        Err(ServiceError::Unsupported("this runtime makes no checkpoints of containers").into())
    }

    async fn get_container_events(
        &self,
        _: Request<GetEventsRequest>,
    ) -> Result<Response<BoxStream<ContainerEventResponse>>, Status> {
        let events = self.shared.events.subscribe();
        let next = |mut events: tokio::sync::broadcast::Receiver<ContainerEventResponse>| async {
            match events.recv().await {
                Ok(event) => Some((Ok(event), Some(events))),
                // The subscriber must read the lists again.
                Err(RecvError::Lagged(missed)) => {
                    Some((Err(Status::data_loss(format!("{missed} events were not read in time"))), None))
                }
                Err(RecvError::Closed) => None,
            }
        };
        let stream = futures::stream::unfold(Some(events), move |events| async move { next(events?).await });
        Ok(Response::new(Box::pin(stream)))
    }
}
