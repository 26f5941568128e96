//! The driver's gRPC services.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use plugins::dra_services::health::dra_resource_health_server::DraResourceHealth;
use plugins::dra_services::health::{NodeWatchResourcesRequest, NodeWatchResourcesResponse};
use plugins::dra_services::{v1, v1beta1};
use plugins::registration_v1 as registration;
use serde_json::json;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, async_trait};

use super::{DEVICE, DraCall, DraFault, Shared};

pub(super) struct Plugin(pub(super) Arc<Shared>);
pub(super) struct Registration(pub(super) Arc<Shared>);
pub(super) struct Health {
    pub(super) shared: Arc<Shared>,
    /// Ends the streams.
    pub(super) gone: CancellationToken,
}

impl Plugin {
    /// Records a call and works on each claim, unless a fault is injected. The results are by UID of the claim.
    async fn answer<T>(
        &self,
        call: DraCall,
        claims: Vec<v1::Claim>,
        work: impl Fn(&Shared, &v1::Claim) -> io::Result<T>,
    ) -> Result<HashMap<String, Result<T, String>>, Status> {
        self.0.calls.lock().extend(claims.iter().map(|claim| (call, claim.name.clone())));
        let mut faults = self.0.faults.subscribe();
        let over = faults.wait_for(|faults| faults.get(&call) != Some(&DraFault::Hangs)).await;
        let fault = over.ok().and_then(|faults| faults.get(&call).copied());
        let answer = |claim: &v1::Claim| match fault {
            Some(DraFault::FailsClaims) => Err("injected failure of a claim".to_owned()),
            Some(DraFault::Fails | DraFault::Hangs) | None => {
                work(&self.0, claim).map_err(|error| error.to_string())
            }
        };
        match fault {
            Some(DraFault::Fails) => Err(Status::internal("injected failure")),
            Some(DraFault::FailsClaims | DraFault::Hangs) | None => {
                Ok(claims.iter().map(|claim| (claim.uid.clone(), answer(claim))).collect())
            }
        }
    }

    async fn prepare(
        &self,
        request: v1::NodePrepareResourcesRequest,
    ) -> Result<Response<v1::NodePrepareResourcesResponse>, Status> {
        let results = self.answer(DraCall::Prepare, request.claims, write_spec).await?;
        let response = |result: Result<v1::Device, String>| match result {
            Ok(device) => v1::NodePrepareResourceResponse { devices: vec![device], error: String::new() },
            Err(error) => v1::NodePrepareResourceResponse { devices: Vec::new(), error },
        };
        let claims = results.into_iter().map(|(uid, result)| (uid, response(result))).collect();
        Ok(Response::new(v1::NodePrepareResourcesResponse { claims }))
    }

    async fn unprepare(
        &self,
        request: v1::NodeUnprepareResourcesRequest,
    ) -> Result<Response<v1::NodeUnprepareResourcesResponse>, Status> {
        let results = self.answer(DraCall::Unprepare, request.claims, remove_spec).await?;
        let response = |result: Result<(), String>| v1::NodeUnprepareResourceResponse {
            error: result.err().unwrap_or_default(),
        };
        let claims = results.into_iter().map(|(uid, result)| (uid, response(result))).collect();
        Ok(Response::new(v1::NodeUnprepareResourcesResponse { claims }))
    }
}

/// Containers with the claim get an environment variable that begins with `CLAIM_OF_` and has the driver's name as its value.
fn write_spec(shared: &Shared, claim: &v1::Claim) -> io::Result<v1::Device> {
    let kind = format!("{}/claim", shared.name);
    let variable = format!("CLAIM_OF_{}={}", shared.name.replace(['.', '-'], "_"), shared.name);
    let spec = json!({
        "cdiVersion": "0.6.0", "kind": kind,
        "devices": [{"name": claim.uid, "containerEdits": {"env": [variable]}}],
    });
    fs::write(shared.spec(&claim.uid), spec.to_string())?;
    Ok(v1::Device {
        request_names: Vec::new(),
        pool_name: DEVICE.0.to_owned(),
        device_name: DEVICE.1.to_owned(),
        cdi_device_ids: vec![format!("{kind}={}", claim.uid)],
        share_id: None,
    })
}

fn remove_spec(shared: &Shared, claim: &v1::Claim) -> io::Result<()> {
    match fs::remove_file(shared.spec(&claim.uid)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[async_trait]
impl v1::dra_plugin_server::DraPlugin for Plugin {
    async fn node_prepare_resources(
        &self,
        request: Request<v1::NodePrepareResourcesRequest>,
    ) -> Result<Response<v1::NodePrepareResourcesResponse>, Status> {
        self.prepare(request.into_inner()).await
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<v1::NodeUnprepareResourcesRequest>,
    ) -> Result<Response<v1::NodeUnprepareResourcesResponse>, Status> {
        self.unprepare(request.into_inner()).await
    }
}

#[async_trait]
impl v1beta1::dra_plugin_server::DraPlugin for Plugin {
    async fn node_prepare_resources(
        &self,
        request: Request<v1::NodePrepareResourcesRequest>,
    ) -> Result<Response<v1::NodePrepareResourcesResponse>, Status> {
        self.prepare(request.into_inner()).await
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<v1::NodeUnprepareResourcesRequest>,
    ) -> Result<Response<v1::NodeUnprepareResourcesResponse>, Status> {
        self.unprepare(request.into_inner()).await
    }
}

#[async_trait]
impl DraResourceHealth for Health {
    async fn node_watch_resources(
        &self,
        _: Request<NodeWatchResourcesRequest>,
    ) -> Result<Response<BoxStream<NodeWatchResourcesResponse>>, Status> {
        let reports = WatchStream::new(self.shared.health.subscribe());
        let reports = reports.filter_map(async |device| {
            device.map(|device| Ok(NodeWatchResourcesResponse { devices: vec![device] }))
        });
        let ended = self.shared.health_streams.lock().clone();
        let gone = self.gone.clone();
        let over = async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = gone.cancelled() => {}
            }
        };
        Ok(Response::new(reports.take_until(Box::pin(over)).boxed()))
    }
}

impl Registration {
    fn fail_if_told(&self) -> Result<(), Status> {
        let left = &self.0.failing_registrations;
        let failed = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match failed {
            Ok(_) => Err(Status::internal("injected failure")),
            Err(_) => Ok(()),
        }
    }
}

#[async_trait]
impl registration::registration_server::Registration for Registration {
    async fn get_info(
        &self,
        _: Request<registration::InfoRequest>,
    ) -> Result<Response<registration::PluginInfo>, Status> {
        self.fail_if_told()?;
        Ok(Response::new(registration::PluginInfo {
            r#type: "DRAPlugin".to_owned(),
            name: self.0.name.clone(),
            endpoint: self.0.endpoint().to_string_lossy().into_owned(),
            supported_versions: vec!["v9.DRAPlugin".to_owned(), self.0.service.to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<registration::RegistrationStatus>,
    ) -> Result<Response<registration::RegistrationStatusResponse>, Status> {
        self.fail_if_told()?;
        let status = request.into_inner();
        let outcome = if status.plugin_registered { Ok(()) } else { Err(status.error) };
        self.0.registered.send_replace(Some(outcome));
        Ok(Response::new(registration::RegistrationStatusResponse {}))
    }
}
