//! From the configuration to the node's own API.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use config::configuration::AuthorizationMode;
use config::{Gate, Loaded};
use decide::request_attributes::StreamingVerb;

use crate::plan::address;

const ALONE: &str = "set --kubeconfig, or authentication.webhook.enabled: false, authorization.mode: AlwaysAllow and authentication.x509.clientCAFile";

/// The main port.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    /// Where it listens.
    pub address: SocketAddr,
    /// How long verdicts on tokens are remembered; `None` when tokens do not count.
    pub tokens: Option<Duration>,
    /// Whether those without credentials are let in as `system:anonymous`.
    pub anonymous: bool,
    /// Who decides what a client may do.
    pub authorization: AuthorizationPlan,
    /// How requests to the streaming paths count.
    pub streaming: StreamingVerb,
    /// `enableDebuggingHandlers`.
    pub debugging: bool,
    /// Gate `ContainerCheckpoint`.
    pub checkpoints: bool,
}

/// Who decides what a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationPlan {
    /// Nobody: all may do all.
    AlwaysAllow,
    /// The API server; how long its yes and its no are remembered.
    Webhook {
        /// `cacheAuthorizedTTL`.
        allowed: Duration,
        /// `cacheUnauthorizedTTL`.
        denied: Duration,
    },
}

/// The main port; `None` when the node has none: with `enableServer: false`, and on a node of its own that was not told
/// how to tell its clients apart.
///
/// # Errors
/// When the API server would have to be asked and there is none, or nobody could ever be let in.
pub fn server(loaded: &Loaded) -> anyhow::Result<Option<ServerPlan>> {
    let (server, access) = (&loaded.config.server, &loaded.config.access);
    let (authentication, authorization) = (&access.authentication, &access.authorization);
    if !server.enable_server {
        return Ok(None);
    }
    if loaded.flags.kubeconfig.is_none() {
        let (tokens, webhook) =
            (authentication.webhook.enabled, authorization.mode == AuthorizationMode::Webhook);
        let asked = |field: &str| loaded.set_fields.contains(field);
        if (tokens || webhook) && !asked("authentication") && !asked("authorization") {
            tracing::info!(
                "the node's API stays closed: without an API server nobody tells who may use it; {ALONE}"
            );
            return Ok(None);
        }
        if tokens {
            bail!("authentication.webhook.enabled: there is no API server to ask about tokens; {ALONE}");
        }
        if webhook {
            bail!("authorization.mode Webhook: there is no API server to ask what clients may do; {ALONE}");
        }
    }
    let certificates = !authentication.x509.client_ca_file.is_empty();
    if !certificates && !authentication.webhook.enabled && !authentication.anonymous.enabled {
        bail!(
            "authentication: no method is configured, so nobody could use the node's API; name x509.clientCAFile, enable webhook or anonymous, or set enableServer: false"
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
