//! Settings of the main port.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use config::configuration::AuthorizationMode;
use config::{Gate, LoadedConfig};
use decide::http::request_attributes::StreamingVerb;

use crate::plan::address;

const STANDALONE_HINT: &str = "set --kubeconfig, or authentication.webhook.enabled: false, authorization.mode: AlwaysAllow and authentication.x509.clientCAFile";

#[derive(Clone, Debug)]
pub struct ServerPlan {
    pub address: SocketAddr,
    /// How long token reviews are cached; `None` when tokens are not accepted.
    pub tokens: Option<Duration>,
    /// Whether requests without credentials are admitted as `system:anonymous`.
    pub anonymous: bool,
    pub authorization: AuthorizationPlan,
    /// The verb that requests to the streaming paths are authorized with.
    pub streaming: StreamingVerb,
    /// `enableDebuggingHandlers`.
    pub debugging: bool,
    /// Gate `ContainerCheckpoint`.
    pub checkpoints: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationPlan {
    AlwaysAllow,
    /// The API server decides; its answers are cached.
    Webhook {
        /// `cacheAuthorizedTTL`.
        allowed: Duration,
        /// `cacheUnauthorizedTTL`.
        denied: Duration,
    },
}

/// The settings of the main port. `None` with `enableServer: false`, and on a standalone node whose configuration does not
/// say how to authenticate clients.
///
/// # Errors
/// When the configuration needs an API server and there is none, or when no client could ever authenticate.
pub fn server(loaded: &LoadedConfig) -> anyhow::Result<Option<ServerPlan>> {
    let (server, access) = (&loaded.config.server, &loaded.config.access);
    let (authentication, authorization) = (&access.authentication, &access.authorization);
    if !server.enable_server {
        return Ok(None);
    }
    if loaded.flags.kubeconfig.is_none() {
        let (tokens, webhook) =
            (authentication.webhook.enabled, authorization.mode == AuthorizationMode::Webhook);
        let is_set = |field: &str| loaded.set_fields.contains(field);
        if (tokens || webhook) && !is_set("authentication") && !is_set("authorization") {
            tracing::info!(
                "the main port stays closed, because a standalone node cannot authenticate clients by default; {STANDALONE_HINT}"
            );
            return Ok(None);
        }
        if tokens {
            bail!("authentication.webhook.enabled: token reviews need an API server; {STANDALONE_HINT}");
        }
        if webhook {
            bail!("authorization.mode Webhook: access reviews need an API server; {STANDALONE_HINT}");
        }
    }
    let certificates = !authentication.x509.client_ca_file.is_empty();
    if !certificates && !authentication.webhook.enabled && !authentication.anonymous.enabled {
        bail!(
            "authentication: no method is configured, so no client could use the node API; set x509.clientCAFile, enable webhook or anonymous, or set enableServer: false"
        );
    }
    let Some(address) = address("address", &server.address, server.port)? else { return Ok(None) };
    let webhook = &authorization.webhook;
    Ok(Some(ServerPlan {
        address,
        tokens: authentication.webhook.enabled.then(|| authentication.webhook.cache_ttl.to_std()),
        anonymous: authentication.anonymous.enabled,
        authorization: match authorization.mode {
            AuthorizationMode::AlwaysAllow => AuthorizationPlan::AlwaysAllow,
            AuthorizationMode::Webhook => AuthorizationPlan::Webhook {
                allowed: webhook.cache_authorized_ttl.to_std(),
                denied: webhook.cache_unauthorized_ttl.to_std(),
            },
        },
        streaming: if loaded.flags.streaming_get { StreamingVerb::ByMethod } else { StreamingVerb::Create },
        debugging: server.enable_debugging_handlers,
        checkpoints: loaded.gates.enabled(Gate::ContainerCheckpoint),
    }))
}
