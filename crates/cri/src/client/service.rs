use std::time::Duration;

use async_trait::async_trait;
use futures::future::Either;
use futures::{FutureExt, StreamExt, stream};
use model::{CgroupDriver, RuntimeConditions, RuntimeVersion};
use ports::runtime::{RuntimeError, RuntimeErrorKind, RuntimeEvents, RuntimeService};
use tonic::{Response, Status, Streaming};

use super::call::{protocol_violation, runtime_error};
use super::{CriClient, Runtime};
use crate::convert::service;
use crate::v1::{
    ContainerEventResponse, GetEventsRequest, NetworkConfig, RuntimeConfig, RuntimeConfigRequest,
    StatusRequest, UpdateRuntimeConfigRequest, VersionRequest,
};

/// CRI version of the kubelet, which the runtime must return.
const API_VERSION: &str = "0.1.0";

/// How long to wait for an immediate error when opening the event stream.
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);

const EVENTS: &str = "get_container_events";

#[async_trait]
impl RuntimeService for CriClient {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        const OPERATION: &str = "version";
        let message = VersionRequest { version: API_VERSION.into() };
        let found = self.call(OPERATION, message, Runtime::version).await?;
        if found.version != API_VERSION {
            let what = format!("API version {:?}, not {API_VERSION}", found.version);
            return Err(protocol_violation(OPERATION, &what));
        }
        if [&found.runtime_name, &found.runtime_version, &found.runtime_api_version].contains(&&String::new())
        {
            return Err(protocol_violation(OPERATION, "a version with empty fields"));
        }
        Ok(service::version(found))
    }

    async fn conditions(&self) -> Result<RuntimeConditions, RuntimeError> {
        const OPERATION: &str = "status";
        let status = self.call(OPERATION, StatusRequest { verbose: false }, Runtime::status).await?;
        service::conditions(status).ok_or_else(|| protocol_violation(OPERATION, "no status"))
    }

    async fn cgroup_driver(&self) -> Result<CgroupDriver, RuntimeError> {
        const OPERATION: &str = "runtime_config";
        let linux = self.call(OPERATION, RuntimeConfigRequest {}, Runtime::runtime_config).await?.linux;
        linux.and_then(|linux| service::cgroup_driver(&linux)).ok_or_else(|| RuntimeError {
            operation: OPERATION,
            kind: RuntimeErrorKind::Unimplemented,
            message: "the runtime does not report its cgroup driver".into(),
        })
    }

    async fn set_pod_cidr(&self, cidr: &str) -> Result<(), RuntimeError> {
        const OPERATION: &str = "update_runtime_config";
        let network = NetworkConfig { pod_cidr: cidr.to_owned() };
        let config = RuntimeConfig { network_config: Some(network) };
        let message = UpdateRuntimeConfigRequest { runtime_config: Some(config) };
        self.call(OPERATION, message, Runtime::update_runtime_config).await.map(drop)
    }

    async fn events(&self) -> Result<RuntimeEvents, RuntimeError> {
        let mut runtime = self.runtime.clone();
        let opening = async move { runtime.get_container_events(GetEventsRequest {}).await };
        let mut opening = opening.boxed();
        // Many runtimes do not even send headers before the first event; only errors arrive immediately.
        match tokio::time::timeout(OPEN_TIMEOUT, &mut opening).await {
            Ok(opened) => Ok(event_stream(opened.map_err(|status| runtime_error(EVENTS, &status))?)),
            Err(_) => Ok(stream::once(opening).flat_map(events_or_error).boxed()),
        }
    }
}

fn events_or_error(
    opened: Result<Response<Streaming<ContainerEventResponse>>, Status>,
) -> impl stream::Stream<Item = Result<model::RuntimeEvent, RuntimeError>> {
    match opened {
        Ok(response) => Either::Left(event_stream(response)),
        Err(status) => Either::Right(stream::iter([Err(runtime_error(EVENTS, &status))])),
    }
}

fn event_stream(response: Response<Streaming<ContainerEventResponse>>) -> RuntimeEvents {
    let events = response.into_inner();
    events
        .filter_map(async |event| match event {
            Ok(event) => service::event(event).map(Ok),
            Err(status) => Some(Err(runtime_error(EVENTS, &status))),
        })
        .boxed()
}
