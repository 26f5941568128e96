use std::sync::Arc;
use std::time::Duration;

use cri::v1::runtime_service_server::RuntimeService;
use cri::v1::{
    ContainerEventResponse, ContainerStatusRequest, ContainerStatusResponse, CreateContainerRequest,
    CreateContainerResponse, ExecSyncRequest, ExecSyncResponse, GetEventsRequest, LinuxRuntimeConfiguration,
    ListContainerStatsRequest, ListContainerStatsResponse, ListContainersRequest, ListContainersResponse,
    ListPodSandboxRequest, ListPodSandboxResponse, PodSandboxStatusRequest, PodSandboxStatusResponse,
    RemoveContainerRequest, RemoveContainerResponse, RemovePodSandboxRequest, RemovePodSandboxResponse,
    ReopenContainerLogRequest, ReopenContainerLogResponse, RunPodSandboxRequest, RunPodSandboxResponse,
    RuntimeCondition, RuntimeConfigRequest, RuntimeConfigResponse, RuntimeStatus, StartContainerRequest,
    StartContainerResponse, StatusRequest, StatusResponse, StopContainerRequest, StopContainerResponse,
    StopPodSandboxRequest, StopPodSandboxResponse, StreamContainerStatsRequest, StreamContainerStatsResponse,
    StreamContainersRequest, StreamContainersResponse, StreamPodSandboxesRequest, StreamPodSandboxesResponse,
    UpdateContainerResourcesRequest, UpdateContainerResourcesResponse, VersionRequest, VersionResponse,
};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::behaviour::KILLED;
use super::container::{no_container, no_sandbox};
use super::event::EventStream;
use super::machine::Machine;
use super::record::Exit;
use super::rpc::{Rpc, Subject};
use super::runtime_state::RuntimeState;
use super::stats;

/// Reported runtime name.
const NAME: &str = "fake";

pub(crate) struct FakeRuntimeService(pub(crate) Arc<Machine>);

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl RuntimeService for FakeRuntimeService {
    async fn version(&self, request: Request<VersionRequest>) -> Answer<VersionResponse> {
        let version = request.into_inner().version;
        let answer = VersionResponse {
            version,
            runtime_name: NAME.into(),
            runtime_version: env!("CARGO_PKG_VERSION").into(),
            runtime_api_version: "v1".into(),
        };
        self.0.call(Rpc::Version, Subject::default(), |_, _| Ok(answer)).await
    }

    async fn status(&self, _: Request<StatusRequest>) -> Answer<StatusResponse> {
        self.0.call(Rpc::Status, Subject::default(), |state, _| Ok(runtime_status(state))).await
    }

    async fn runtime_config(&self, _: Request<RuntimeConfigRequest>) -> Answer<RuntimeConfigResponse> {
        let work = |state: &mut RuntimeState, _| {
            let driver = state.settings.cgroup_driver;
            let driver = driver.ok_or_else(|| Status::unimplemented("unknown method RuntimeConfig"))?;
            let linux = LinuxRuntimeConfiguration { cgroup_driver: driver.into() };
            Ok(RuntimeConfigResponse { linux: Some(linux) })
        };
        self.0.call(Rpc::RuntimeConfig, Subject::default(), work).await
    }

    async fn run_pod_sandbox(&self, request: Request<RunPodSandboxRequest>) -> Answer<RunPodSandboxResponse> {
        let request = request.into_inner();
        let metadata = request.config.as_ref().and_then(|config| config.metadata.as_ref());
        let subject =
            Subject { pod_uid: metadata.map(|of| of.uid.clone()).unwrap_or_default(), ..Subject::default() };
        let work = |state: &mut RuntimeState, now| {
            Ok(RunPodSandboxResponse { pod_sandbox_id: state.run_sandbox(request, now)? })
        };
        self.0.call(Rpc::RunPodSandbox, subject, work).await
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<StopPodSandboxRequest>,
    ) -> Answer<StopPodSandboxResponse> {
        let id = request.into_inner().pod_sandbox_id;
        let answering = self.0.enter(Rpc::StopPodSandbox, self.0.subject(&id)).await?;
        if !answering.only_claimed {
            self.0.change(|state, now| state.stop_sandbox(&id, now));
        }
        answering.answer(Ok(StopPodSandboxResponse {})).await.map(Response::new)
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<RemovePodSandboxRequest>,
    ) -> Answer<RemovePodSandboxResponse> {
        let id = request.into_inner().pod_sandbox_id;
        let work = |state: &mut RuntimeState, now| {
            state.remove_sandbox(&id, now);
            Ok(RemovePodSandboxResponse {})
        };
        self.0.call(Rpc::RemovePodSandbox, self.0.subject(&id), work).await
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<PodSandboxStatusRequest>,
    ) -> Answer<PodSandboxStatusResponse> {
        let id = request.into_inner().pod_sandbox_id;
        let work = |state: &mut RuntimeState, now| {
            let sandbox = state.sandbox(&id).ok_or_else(|| no_sandbox(&id))?;
            let mut answer =
                PodSandboxStatusResponse { status: Some(sandbox.status()), ..Default::default() };
            if state.subscribers.stream == EventStream::Served {
                answer.containers_statuses = state.statuses_in(&id);
                answer.timestamp = now;
            }
            Ok(answer)
        };
        self.0.call(Rpc::PodSandboxStatus, self.0.subject(&id), work).await
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<ListPodSandboxRequest>,
    ) -> Answer<ListPodSandboxResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let subject = selected(&filter.id, &filter.label_selector);
        let work =
            |state: &mut RuntimeState, _| Ok(ListPodSandboxResponse { items: state.list_sandboxes(&filter) });
        self.0.call(Rpc::ListPodSandbox, subject, work).await
    }

    async fn stream_pod_sandboxes(
        &self,
        request: Request<StreamPodSandboxesRequest>,
    ) -> Answer<BoxStream<StreamPodSandboxesResponse>> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let subject = selected(&filter.id, &filter.label_selector);
        let work = |state: &mut RuntimeState, _| {
            has_pieces(state)?;
            Ok(state.list_sandboxes(&filter))
        };
        let found = self.0.call(Rpc::StreamPodSandboxes, subject, work).await?;
        Ok(in_pieces(found, |one| StreamPodSandboxesResponse { pod_sandboxes: vec![one] }))
    }

    async fn create_container(
        &self,
        request: Request<CreateContainerRequest>,
    ) -> Answer<CreateContainerResponse> {
        let request = request.into_inner();
        let metadata = request.config.as_ref().and_then(|config| config.metadata.as_ref());
        let subject = Subject {
            id: String::new(),
            pod_uid: self.0.subject(&request.pod_sandbox_id).pod_uid,
            container: metadata.map(|of| of.name.clone()).unwrap_or_default(),
        };
        let work = |state: &mut RuntimeState, now| {
            Ok(CreateContainerResponse { container_id: state.create_container(request, now)? })
        };
        self.0.call(Rpc::CreateContainer, subject, work).await
    }

    async fn start_container(
        &self,
        request: Request<StartContainerRequest>,
    ) -> Answer<StartContainerResponse> {
        let id = request.into_inner().container_id;
        let work = |state: &mut RuntimeState, now| {
            state.start_container(&id, now).map(|()| StartContainerResponse {})
        };
        self.0.call(Rpc::StartContainer, self.0.subject(&id), work).await
    }

    async fn stop_container(&self, request: Request<StopContainerRequest>) -> Answer<StopContainerResponse> {
        let StopContainerRequest { container_id: id, timeout } = request.into_inner();
        let answering = self.0.enter(Rpc::StopContainer, self.0.subject(&id)).await?;
        if !answering.only_claimed
            && let Some(exited) = self.0.change(|state, now| state.signal_stop(&id, timeout, now))
        {
            let grace = Duration::from_secs(u64::try_from(timeout).unwrap_or(0));
            if tokio::time::timeout(grace, exited.cancelled()).await.is_err() {
                self.0.change(|state, now| state.end_container(&id, Exit::code(KILLED), now));
            }
        }
        answering.answer(Ok(StopContainerResponse {})).await.map(Response::new)
    }

    async fn remove_container(
        &self,
        request: Request<RemoveContainerRequest>,
    ) -> Answer<RemoveContainerResponse> {
        let id = request.into_inner().container_id;
        let work = |state: &mut RuntimeState, now| {
            state.remove_container(&id, now);
            Ok(RemoveContainerResponse {})
        };
        self.0.call(Rpc::RemoveContainer, self.0.subject(&id), work).await
    }

    async fn list_containers(
        &self,
        request: Request<ListContainersRequest>,
    ) -> Answer<ListContainersResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let subject = selected(&filter.id, &filter.label_selector);
        let work = |state: &mut RuntimeState, _| {
            Ok(ListContainersResponse { containers: state.list_containers(&filter) })
        };
        self.0.call(Rpc::ListContainers, subject, work).await
    }

    async fn stream_containers(
        &self,
        request: Request<StreamContainersRequest>,
    ) -> Answer<BoxStream<StreamContainersResponse>> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let subject = selected(&filter.id, &filter.label_selector);
        let work = |state: &mut RuntimeState, _| {
            has_pieces(state)?;
            Ok(state.list_containers(&filter))
        };
        let found = self.0.call(Rpc::StreamContainers, subject, work).await?;
        Ok(in_pieces(found, |one| StreamContainersResponse { containers: vec![one] }))
    }

    async fn container_status(
        &self,
        request: Request<ContainerStatusRequest>,
    ) -> Answer<ContainerStatusResponse> {
        let ContainerStatusRequest { container_id: id, verbose } = request.into_inner();
        let work = |state: &mut RuntimeState, _| {
            let container = state.container(&id).ok_or_else(|| no_container(&id))?;
            let info = serde_json::json!({ "pid": 0, "sandboxID": container.sandbox_id }).to_string();
            Ok(ContainerStatusResponse {
                status: Some(container.status()),
                info: verbose.then(|| ("info".to_owned(), info)).into_iter().collect(),
            })
        };
        self.0.call(Rpc::ContainerStatus, self.0.subject(&id), work).await
    }

    async fn update_container_resources(
        &self,
        request: Request<UpdateContainerResourcesRequest>,
    ) -> Answer<UpdateContainerResourcesResponse> {
        let request = request.into_inner();
        let id = request.container_id;
        let work = |state: &mut RuntimeState, _| {
            state.update_resources(&id, request.linux)?;
            Ok(UpdateContainerResourcesResponse {})
        };
        self.0.call(Rpc::UpdateContainerResources, self.0.subject(&id), work).await
    }

    async fn reopen_container_log(
        &self,
        request: Request<ReopenContainerLogRequest>,
    ) -> Answer<ReopenContainerLogResponse> {
        let id = request.into_inner().container_id;
        let work =
            |state: &mut RuntimeState, _| state.reopen_log(&id).map(|()| ReopenContainerLogResponse {});
        self.0.call(Rpc::ReopenContainerLog, self.0.subject(&id), work).await
    }

    async fn exec_sync(&self, request: Request<ExecSyncRequest>) -> Answer<ExecSyncResponse> {
        let ExecSyncRequest { container_id: id, cmd, timeout } = request.into_inner();
        let answering = self.0.enter(Rpc::ExecSync, self.0.subject(&id)).await?;
        let container =
            self.0.read(|state| state.container(&id).cloned()).ok_or_else(|| no_container(&id))?;
        if !container.is_running() {
            return Err(Status::unknown(format!("container is in {} state", container.state.as_str_name())));
        }
        let outcome = self.0.exec_outcome(&container, &cmd);
        let limit = u64::try_from(timeout).ok().filter(|limit| *limit > 0).map(Duration::from_secs);
        tokio::time::sleep(limit.map_or(outcome.takes, |limit| limit.min(outcome.takes))).await;
        if limit.is_some_and(|limit| outcome.takes > limit) {
            return Err(Status::deadline_exceeded(format!("command timed out after {timeout}s")));
        }
        let answer =
            ExecSyncResponse { stdout: outcome.stdout, stderr: outcome.stderr, exit_code: outcome.code };
        answering.answer(Ok(answer)).await.map(Response::new)
    }

    async fn list_container_stats(
        &self,
        request: Request<ListContainerStatsRequest>,
    ) -> Answer<ListContainerStatsResponse> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let subject = selected(&filter.id, &filter.label_selector);
        let work = |state: &mut RuntimeState, now| {
            Ok(ListContainerStatsResponse { stats: stats::of_running(state, filter, now) })
        };
        self.0.call(Rpc::ListContainerStats, subject, work).await
    }

    async fn stream_container_stats(
        &self,
        request: Request<StreamContainerStatsRequest>,
    ) -> Answer<BoxStream<StreamContainerStatsResponse>> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let subject = selected(&filter.id, &filter.label_selector);
        let work = |state: &mut RuntimeState, now| {
            has_pieces(state)?;
            Ok(stats::of_running(state, filter, now))
        };
        let found = self.0.call(Rpc::StreamContainerStats, subject, work).await?;
        Ok(in_pieces(found, |one| StreamContainerStatsResponse { container_stats: vec![one] }))
    }

    async fn get_container_events(
        &self,
        _: Request<GetEventsRequest>,
    ) -> Answer<BoxStream<ContainerEventResponse>> {
        let work = |state: &mut RuntimeState, _| match state.subscribers.stream {
            EventStream::Served => Ok(state.subscribers.subscribe()),
            EventStream::Unimplemented => Err(Status::unimplemented("unknown method GetContainerEvents")),
        };
        let receiver = self.0.call(Rpc::GetContainerEvents, Subject::default(), work).await?;
        Ok(receiver.map(|receiver| Box::pin(UnboundedReceiverStream::new(receiver).fuse()) as BoxStream<_>))
    }
}

pub(super) fn has_pieces(state: &RuntimeState) -> Result<(), Status> {
    match state.settings.lists_in_pieces {
        true => Ok(()),
        false => Err(Status::unimplemented("unknown method")),
    }
}

/// Streams a list with one entry per message.
pub(super) fn in_pieces<One, Piece>(
    found: Response<Vec<One>>,
    piece: impl Fn(One) -> Piece,
) -> Response<BoxStream<Piece>>
where
    Piece: Send + 'static,
{
    let pieces: Vec<_> = found.into_inner().into_iter().map(|one| Ok(piece(one))).collect();
    Response::new(Box::pin(tokio_stream::iter(pieces)))
}

fn runtime_status(state: &RuntimeState) -> StatusResponse {
    let condition = |name: &str, ready: bool| RuntimeCondition {
        r#type: name.into(),
        status: ready,
        reason: if ready { String::new() } else { format!("{name}WasSwitchedOff") },
        message: if ready { String::new() } else { "switched off by the test".into() },
    };
    let conditions = vec![
        condition("RuntimeReady", state.settings.runtime_ready),
        condition("NetworkReady", state.settings.network_ready),
    ];
    StatusResponse {
        status: Some(RuntimeStatus { conditions }),
        runtime_handlers: state.settings.handlers.clone(),
        ..Default::default()
    }
}

/// The object of a list call.
fn selected(id: &str, labels: &std::collections::HashMap<String, String>) -> Subject {
    Subject {
        id: id.to_owned(),
        pod_uid: labels.get(model::labels::POD_UID).cloned().unwrap_or_default(),
        container: String::new(),
    }
}
