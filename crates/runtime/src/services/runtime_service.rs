//! The runtime service: one handler per request, which only looks up objects and calls the modules that do the work.

use std::time::Duration;

use cri::v1::runtime_service_server::RuntimeService;
use cri::v1::{
    AttachRequest, AttachResponse, CheckpointContainerRequest, CheckpointContainerResponse,
    ContainerEventResponse, ContainerFilter, ContainerStats, ContainerStatsFilter, ContainerStatsRequest,
    ContainerStatsResponse, ContainerStatusRequest, ContainerStatusResponse, CreateContainerRequest,
    CreateContainerResponse, ExecRequest, ExecResponse, ExecSyncRequest, ExecSyncResponse, GetEventsRequest,
    ListContainerStatsRequest, ListContainerStatsResponse, ListContainersRequest, ListContainersResponse,
    ListMetricDescriptorsRequest, ListMetricDescriptorsResponse, ListPodSandboxMetricsRequest,
    ListPodSandboxMetricsResponse, ListPodSandboxRequest, ListPodSandboxResponse, ListPodSandboxStatsRequest,
    ListPodSandboxStatsResponse, PodSandboxFilter, PodSandboxStats, PodSandboxStatsFilter,
    PodSandboxStatsRequest, PodSandboxStatsResponse, PodSandboxStatusRequest, PodSandboxStatusResponse,
    PortForwardRequest, PortForwardResponse, RemoveContainerRequest, RemoveContainerResponse,
    RemovePodSandboxRequest, RemovePodSandboxResponse, ReopenContainerLogRequest, ReopenContainerLogResponse,
    RunPodSandboxRequest, RunPodSandboxResponse, RuntimeConfigRequest, RuntimeConfigResponse,
    StartContainerRequest, StartContainerResponse, StatusRequest, StatusResponse, StopContainerRequest,
    StopContainerResponse, StopPodSandboxRequest, StopPodSandboxResponse, StreamContainerStatsRequest,
    StreamContainerStatsResponse, StreamContainersRequest, StreamContainersResponse,
    StreamPodSandboxStatsRequest, StreamPodSandboxStatsResponse, StreamPodSandboxesRequest,
    StreamPodSandboxesResponse, UpdateContainerResourcesRequest, UpdateContainerResourcesResponse,
    UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse, UpdateRuntimeConfigRequest,
    UpdateRuntimeConfigResponse, VersionRequest, VersionResponse,
};
use tokio::sync::broadcast::error::RecvError;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::{RuntimeServices, filters, metrics, statistics, status, verbose};
use crate::containers::{
    create_container, exec_sync, published_container, published_status, remove_container, start_container,
    stop_container, update_resources,
};
use crate::errors::ServiceError;
use crate::keeper::client::KeeperClientError;
use crate::records::LifeState;
use crate::sandboxes::{published_sandbox, remove_sandbox, run_sandbox, sandbox_status, stop_sandbox};
use crate::streaming::{self, StreamOptions, TooManyRequests};

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

    async fn stats_of_containers(
        &self,
        filter: ContainerStatsFilter,
    ) -> Result<Vec<ContainerStats>, ServiceError> {
        let mut stats = Vec::new();
        for container in self.list_of_containers(&filters::of_container_stats(filter)) {
            // It may have been removed meanwhile.
            if let Ok(container) = self.shared.container(&container.id) {
                stats.push(statistics::of_container(&self.shared, &container).await?);
            }
        }
        Ok(stats)
    }

    async fn stats_of_sandboxes(
        &self,
        filter: PodSandboxStatsFilter,
    ) -> Result<Vec<PodSandboxStats>, ServiceError> {
        let mut stats = Vec::new();
        for sandbox in self.list_sandboxes(&filters::of_sandbox_stats(filter)) {
            // It may have been removed meanwhile.
            if let Ok(sandbox) = self.shared.sandbox(&sandbox.id) {
                stats.push(statistics::of_sandbox(&self.shared, &sandbox).await?);
            }
        }
        Ok(stats)
    }

    /// The id of a container that must run.
    fn running(&self, id: &str) -> Result<String, ServiceError> {
        let container = self.shared.container(id)?;
        let id = container.record.id.clone();
        match container.life() {
            LifeState::Running { .. } => Ok(id),
            LifeState::Created | LifeState::Exited(_) => {
                Err(ServiceError::State(format!("container {id} is not running")))
            }
        }
    }

    /// Requests that remove an object succeed if it does not exist.
    fn unless_gone<T>(found: Result<T, ServiceError>) -> Result<Option<T>, ServiceError> {
        match found {
            Ok(object) => Ok(Some(object)),
            Err(ServiceError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Checks which streams a client asks for.
fn stream_options(options: StreamOptions) -> Result<StreamOptions, Status> {
    let StreamOptions { stdin, stdout, stderr, tty } = options;
    if tty && stderr {
        return Err(Status::invalid_argument("a terminal has no separate standard error"));
    }
    if !(stdin || stdout || stderr) {
        return Err(Status::invalid_argument("none of stdin, stdout and stderr is asked for"));
    }
    Ok(options)
}

/// Node agents turn this into HTTP 429.
fn too_many(error: &TooManyRequests) -> Status {
    Status::resource_exhausted(error.to_string())
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
        Ok(Response::new(status::status(&self.shared, request.into_inner().verbose).await))
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
            self.shared.network.set_pod_cidrs(&cidrs).await?;
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
        let id = &self.running(&container.record.id)?;
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

    async fn exec(&self, request: Request<ExecRequest>) -> Result<Response<ExecResponse>, Status> {
        let ExecRequest { container_id, cmd, tty, stdin, stdout, stderr } = request.into_inner();
        let options = stream_options(StreamOptions { stdin, stdout, stderr, tty })?;
        let container = self.running(&container_id)?;
        let request = streaming::ExecRequest { container, command: cmd, options };
        let url = self.streaming.exec_url(request).map_err(|error| too_many(&error))?;
        Ok(Response::new(ExecResponse { url }))
    }

    async fn attach(&self, request: Request<AttachRequest>) -> Result<Response<AttachResponse>, Status> {
        let AttachRequest { container_id, stdin, tty, stdout, stderr } = request.into_inner();
        let options = stream_options(StreamOptions { stdin, stdout, stderr, tty })?;
        let container = self.running(&container_id)?;
        let request = streaming::AttachRequest { container, options };
        let url = self.streaming.attach_url(request).map_err(|error| too_many(&error))?;
        Ok(Response::new(AttachResponse { url }))
    }

    async fn port_forward(
        &self,
        request: Request<PortForwardRequest>,
    ) -> Result<Response<PortForwardResponse>, Status> {
        let PortForwardRequest { pod_sandbox_id, port } = request.into_inner();
        let sandbox = self.shared.sandbox(&pod_sandbox_id)?;
        if !sandbox.is_ready() {
            let problem = format!("sandbox {} is not ready", sandbox.record.id);
            return Err(ServiceError::State(problem).into());
        }
        let ports = port.into_iter().map(u16::try_from).collect::<Result<_, _>>();
        let ports = ports.map_err(|_| Status::invalid_argument("a port is not between 0 and 65535"))?;
        let request = streaming::PortForwardRequest { sandbox: sandbox.record.id.clone(), ports };
        let url = self.streaming.port_forward_url(request).map_err(|error| too_many(&error))?;
        Ok(Response::new(PortForwardResponse { url }))
    }

    async fn container_stats(
        &self,
        request: Request<ContainerStatsRequest>,
    ) -> Result<Response<ContainerStatsResponse>, Status> {
        let container = self.shared.container(&request.into_inner().container_id)?;
        let stats = Some(statistics::of_container(&self.shared, &container).await?);
        Ok(Response::new(ContainerStatsResponse { stats }))
    }

    async fn list_container_stats(
        &self,
        request: Request<ListContainerStatsRequest>,
    ) -> Result<Response<ListContainerStatsResponse>, Status> {
        let filter = request.into_inner().filter.unwrap_or_default();
        Ok(Response::new(ListContainerStatsResponse { stats: self.stats_of_containers(filter).await? }))
    }

    async fn stream_container_stats(
        &self,
        request: Request<StreamContainerStatsRequest>,
    ) -> Result<Response<BoxStream<StreamContainerStatsResponse>>, Status> {
        let stats = self.stats_of_containers(request.into_inner().filter.unwrap_or_default()).await?;
        let message = |container_stats| StreamContainerStatsResponse { container_stats };
        Ok(Response::new(in_parts(&stats, message)))
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<PodSandboxStatsRequest>,
    ) -> Result<Response<PodSandboxStatsResponse>, Status> {
        let sandbox = self.shared.sandbox(&request.into_inner().pod_sandbox_id)?;
        if !sandbox.is_ready() {
            return Err(Status::unavailable("the sandbox is not ready"));
        }
        let stats = Some(statistics::of_sandbox(&self.shared, &sandbox).await?);
        Ok(Response::new(PodSandboxStatsResponse { stats }))
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<ListPodSandboxStatsRequest>,
    ) -> Result<Response<ListPodSandboxStatsResponse>, Status> {
        let filter = request.into_inner().filter.unwrap_or_default();
        Ok(Response::new(ListPodSandboxStatsResponse { stats: self.stats_of_sandboxes(filter).await? }))
    }

    async fn stream_pod_sandbox_stats(
        &self,
        request: Request<StreamPodSandboxStatsRequest>,
    ) -> Result<Response<BoxStream<StreamPodSandboxStatsResponse>>, Status> {
        let stats = self.stats_of_sandboxes(request.into_inner().filter.unwrap_or_default()).await?;
        let message = |pod_sandbox_stats| StreamPodSandboxStatsResponse { pod_sandbox_stats };
        Ok(Response::new(in_parts(&stats, message)))
    }

    async fn list_metric_descriptors(
        &self,
        _: Request<ListMetricDescriptorsRequest>,
    ) -> Result<Response<ListMetricDescriptorsResponse>, Status> {
        Ok(Response::new(ListMetricDescriptorsResponse { descriptors: metrics::descriptors() }))
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _: Request<ListPodSandboxMetricsRequest>,
    ) -> Result<Response<ListPodSandboxMetricsResponse>, Status> {
        let mut pod_metrics = Vec::new();
        for sandbox in self.shared.sandboxes().iter().filter(|sandbox| sandbox.is_ready()) {
            pod_metrics.push(metrics::of_sandbox(&self.shared, sandbox).await?);
        }
        Ok(Response::new(ListPodSandboxMetricsResponse { pod_metrics }))
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
