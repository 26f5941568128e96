//! Client of drivers for dynamic resource allocation.

mod watched_stream;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use model::{ClaimDeviceHealth, ClaimReference, DeviceHealthReport, PreparedDevice};
use ports::plugins::dra::{ClaimResults, DraConnection, DraConnector, DraError, DraVersion, HealthReports};
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::Channel;

use crate::connect::{go_code_name, go_error_text, within};
use crate::dra_services::health::dra_resource_health_client::DraResourceHealthClient;
use crate::dra_services::health::{DeviceHealth, HealthStatus, NodeWatchResourcesRequest};
use crate::dra_services::v1beta1::dra_plugin_client::DraPluginClient as V1Beta1Client;
use crate::dra_services::{v1, v1::dra_plugin_client::DraPluginClient as V1Client};

/// For one call, same as upstream.
const CALL_TIMEOUT: Duration = Duration::from_secs(45);

/// Implements [`DraConnector`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcDraConnector;

struct GrpcDraConnection {
    channel: Channel,
    /// Its sender is dropped with the socket.
    open: watch::Receiver<()>,
}

#[async_trait]
impl DraConnector for GrpcDraConnector {
    async fn connect(&self, endpoint: &Path) -> Result<Arc<dyn DraConnection>, DraError> {
        let (channel, open) = watched_stream::dial(endpoint).await.map_err(dra_error)?;
        Ok(Arc::new(GrpcDraConnection { channel, open }))
    }
}

#[async_trait]
impl DraConnection for GrpcDraConnection {
    async fn prepare(
        &self,
        version: DraVersion,
        claims: &[ClaimReference],
    ) -> Result<ClaimResults<Vec<PreparedDevice>>, DraError> {
        let request = v1::NodePrepareResourcesRequest { claims: to_claims(claims) };
        let channel = self.channel.clone();
        let call = async {
            match version {
                DraVersion::V1 => V1Client::new(channel).node_prepare_resources(request).await,
                DraVersion::V1Beta1 => V1Beta1Client::new(channel).node_prepare_resources(request).await,
            }
        };
        let answer = within(CALL_TIMEOUT, call).await.map_err(dra_error)?.into_inner();
        let result = |answer: v1::NodePrepareResourceResponse| match answer.error.is_empty() {
            true => Ok(answer.devices.into_iter().map(to_device).collect()),
            false => Err(answer.error),
        };
        Ok(answer.claims.into_iter().map(|(uid, answer)| (uid, result(answer))).collect())
    }

    async fn unprepare(
        &self,
        version: DraVersion,
        claims: &[ClaimReference],
    ) -> Result<ClaimResults<()>, DraError> {
        let request = v1::NodeUnprepareResourcesRequest { claims: to_claims(claims) };
        let channel = self.channel.clone();
        let call = async {
            match version {
                DraVersion::V1 => V1Client::new(channel).node_unprepare_resources(request).await,
                DraVersion::V1Beta1 => V1Beta1Client::new(channel).node_unprepare_resources(request).await,
            }
        };
        let answer = within(CALL_TIMEOUT, call).await.map_err(dra_error)?.into_inner();
        let result = |answer: v1::NodeUnprepareResourceResponse| match answer.error.is_empty() {
            true => Ok(()),
            false => Err(answer.error),
        };
        Ok(answer.claims.into_iter().map(|(uid, answer)| (uid, result(answer))).collect())
    }

    async fn watch_health(&self) -> Result<HealthReports, DraError> {
        let mut client = DraResourceHealthClient::new(self.channel.clone());
        let reports = client.node_watch_resources(NodeWatchResourcesRequest {}).await.map_err(dra_error)?;
        let reports = reports.into_inner().map(|report| match report {
            Ok(report) => Ok(report.devices.into_iter().map(to_report).collect()),
            Err(status) => Err(dra_error(status)),
        });
        Ok(reports.boxed())
    }

    async fn closed(&self) {
        let mut open = self.open.clone();
        while open.changed().await.is_ok() {}
    }
}

fn to_claims(claims: &[ClaimReference]) -> Vec<v1::Claim> {
    let claim = |claim: &ClaimReference| v1::Claim {
        namespace: claim.namespace.clone(),
        uid: claim.uid.clone(),
        name: claim.name.clone(),
    };
    claims.iter().map(claim).collect()
}

fn to_device(device: v1::Device) -> PreparedDevice {
    PreparedDevice {
        pool: device.pool_name,
        device: device.device_name,
        share_id: device.share_id,
        requests: device.request_names,
        cdi_ids: device.cdi_device_ids,
    }
}

fn to_report(device: DeviceHealth) -> DeviceHealthReport {
    let health = match device.health() {
        HealthStatus::Healthy => ClaimDeviceHealth::Healthy,
        HealthStatus::Unhealthy => ClaimDeviceHealth::Unhealthy,
        HealthStatus::Unknown => ClaimDeviceHealth::Unknown,
    };
    let id = device.device.unwrap_or_default();
    DeviceHealthReport {
        pool: id.pool_name,
        device: id.device_name,
        health,
        timeout_seconds: device.health_check_timeout_seconds,
        message: device.message,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "maps errors")]
fn dra_error(status: Status) -> DraError {
    DraError { code: go_code_name(&status), message: go_error_text(&status) }
}
