//! The client side of plugin registration.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use ports::plugin_registry::{PluginError, PluginInfo, PluginRegistration};

use crate::connect::{dial, within, words};
use crate::registration_v1::registration_client::RegistrationClient;
use crate::registration_v1::{InfoRequest, RegistrationStatus};

const GET_INFO: Duration = Duration::from_secs(1);
const NOTIFY: Duration = Duration::from_secs(5);

/// [`PluginRegistration`] over gRPC.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcPluginRegistration;

#[async_trait]
impl PluginRegistration for GrpcPluginRegistration {
    async fn get_info(&self, socket: &Path) -> Result<PluginInfo, PluginError> {
        let call = async {
            let mut client = RegistrationClient::new(dial(socket).await?);
            within(GET_INFO, client.get_info(InfoRequest {})).await
        };
        let info = call.await.map_err(|status| PluginError(words(&status)))?.into_inner();
        Ok(PluginInfo {
            kind: info.r#type,
            name: info.name,
            // A plugin that serves everything on one socket names none.
            endpoint: if info.endpoint.is_empty() { socket.to_path_buf() } else { info.endpoint.into() },
            versions: info.supported_versions,
        })
    }

    async fn notify(&self, socket: &Path, outcome: Result<(), &str>) -> Result<(), PluginError> {
        let status = RegistrationStatus {
            plugin_registered: outcome.is_ok(),
            error: outcome.err().unwrap_or_default().to_owned(),
        };
        let call = async {
            let mut client = RegistrationClient::new(dial(socket).await?);
            within(NOTIFY, client.notify_registration_status(status)).await
        };
        call.await.map(|_| ()).map_err(|status| PluginError(words(&status)))
    }
}
