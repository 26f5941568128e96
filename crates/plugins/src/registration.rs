//! Client of the plugin registration service.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use ports::plugins::plugin_registry::{PluginError, PluginInfo, PluginRegistration};

use crate::connect::{dial, go_error_text, within};
use crate::registration_v1::registration_client::RegistrationClient;
use crate::registration_v1::{InfoRequest, RegistrationStatus};

const GET_INFO_TIMEOUT: Duration = Duration::from_secs(1);
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// Implements [`PluginRegistration`].
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcPluginRegistration;

#[async_trait]
impl PluginRegistration for GrpcPluginRegistration {
    async fn get_info(&self, socket: &Path) -> Result<PluginInfo, PluginError> {
        let call = async {
            let mut client = RegistrationClient::new(dial(socket).await?);
            within(GET_INFO_TIMEOUT, client.get_info(InfoRequest {})).await
        };
        let info = call.await.map_err(|status| PluginError(go_error_text(&status)))?.into_inner();
        Ok(PluginInfo {
            kind: info.r#type,
            name: info.name,
            // Without an endpoint, the plugin serves everything on the registration socket.
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
            within(NOTIFY_TIMEOUT, client.notify_registration_status(status)).await
        };
        call.await.map(|_| ()).map_err(|status| PluginError(go_error_text(&status)))
    }
}
